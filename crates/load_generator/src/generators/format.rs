//! Numbers as text in the format of Erlang's `io_lib:format`: one control in a text, as
//! `key-~8..0B`.

/// A text with a number in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Format {
    before: String,
    after: String,
    width: usize,
    left_aligned: bool,
    pad: char,
    radix: u64,
    uppercase: bool,
}

impl Format {
    /// Parses a text with one of `~w`, `~p`, `~B` and `~b`, with width, base and padding:
    /// `~F.P.Pad`. `None`: not exactly one, or an unsupported control.
    pub fn read(text: &str) -> Option<Format> {
        let mut format = Format {
            before: String::new(),
            after: String::new(),
            width: 0,
            left_aligned: false,
            pad: ' ',
            radix: 10,
            uppercase: true,
        };
        let mut has_control = false;
        let mut letters = text.chars().peekable();
        while let Some(letter) = letters.next() {
            let text_part = if has_control { &mut format.after } else { &mut format.before };
            if letter != '~' {
                text_part.push(letter);
                continue;
            }
            match letters.peek() {
                Some('~') => {
                    text_part.push('~');
                    letters.next();
                }
                Some('n') => {
                    text_part.push('\n');
                    letters.next();
                }
                _ if has_control => return None,
                _ => {
                    format.control(&mut letters)?;
                    has_control = true;
                }
            }
        }
        has_control.then_some(format)
    }

    fn control(&mut self, letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<()> {
        self.left_aligned = letters.next_if_eq(&'-').is_some();
        self.width = number(letters).unwrap_or(0);
        let mut has_base = false;
        if letters.next_if_eq(&'.').is_some() {
            if let Some(base) = number(letters) {
                self.radix = u64::try_from(base).ok().filter(|base| (2..=36).contains(base))?;
                has_base = true;
            }
            if letters.next_if_eq(&'.').is_some() {
                self.pad = letters.next()?;
            }
        }
        match letters.next()? {
            'B' => {}
            'b' => self.uppercase = false,
            'w' | 'p' if !has_base => {}
            _ => return None,
        }
        (self.width <= base::limits::KEY_BYTES_MAX).then_some(())
    }

    /// Returns the most digits that the number may have. `None`: any number of them.
    pub fn digits_max(&self) -> Option<usize> {
        (self.width > 0).then_some(self.width)
    }

    /// Returns the number of digits that this number has.
    pub fn digits(&self, number: u64) -> usize {
        digits(number, self.radix, self.uppercase).len()
    }

    /// Appends the text with this number.
    pub fn write(&self, number: u64, out: &mut Vec<u8>) {
        let digits = digits(number, self.radix, self.uppercase);
        let padding: String =
            std::iter::repeat_n(self.pad, self.width.saturating_sub(digits.len())).collect();
        out.extend_from_slice(self.before.as_bytes());
        let (first, second) =
            if self.left_aligned { (&digits, &padding) } else { (&padding, &digits) };
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(second.as_bytes());
        out.extend_from_slice(self.after.as_bytes());
    }
}

fn number(letters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<usize> {
    let mut digits = String::new();
    while let Some(digit) = letters.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    digits.parse().ok()
}

fn digits(mut number: u64, radix: u64, uppercase: bool) -> String {
    let mut letters = Vec::new();
    loop {
        let digit = char::from_digit((number % radix) as u32, radix as u32).unwrap_or('0');
        letters.push(if uppercase { digit.to_ascii_uppercase() } else { digit });
        number /= radix;
        if number == 0 {
            return letters.into_iter().rev().collect();
        }
    }
}
