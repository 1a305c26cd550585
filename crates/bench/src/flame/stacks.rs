//! Stacks of `perf script`, folded: equal stacks are counted together.

use std::collections::BTreeMap;

/// Number of samples by stack: the thread's name first, then the frames from the outermost on.
pub type Stacks = BTreeMap<Vec<String>, u64>;

/// Folds the output of `perf script`. A sample is a line that begins with the thread's name, then
/// one indented line for each frame from the innermost on, then an empty line.
pub fn fold(text: &str) -> Stacks {
    let mut stacks = Stacks::new();
    let (mut thread, mut frames) = (None, Vec::new());
    for line in text.lines().chain([""]) {
        match line.chars().next() {
            None => {
                if let Some(thread) = thread.take() {
                    frames.push(thread);
                    frames.reverse();
                    *stacks.entry(std::mem::take(&mut frames)).or_default() += 1;
                }
                frames.clear();
            }
            Some('#') => {}
            Some(first) if first.is_whitespace() => frames.extend(frame_name(line)),
            Some(_) => thread = Some(thread_name(line)),
        }
    }
    stacks
}

/// Returns the name before the number of the thread, without the digits that tell equal threads
/// apart.
fn thread_name(line: &str) -> String {
    let is_number = |word: &str| word.split('/').all(|part| part.parse::<u64>().is_ok());
    let words: Vec<_> = line.split_whitespace().collect();
    let name = words.iter().take_while(|word| !is_number(word)).copied();
    let name = name.collect::<Vec<_>>().join(" ");
    name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '-').to_string()
}

/// Returns a frame's function: `  55d0 node::route::answer+0x1f (/usr/bin/credenza)`. A frame
/// without a name is named by its file.
fn frame_name(line: &str) -> Option<String> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (function, file) = rest.rsplit_once(" (")?;
    let function = function.rsplit_once("+0x").map_or(function, |(name, _)| name);
    if function != "[unknown]" {
        return Some(without_hash(function).to_string());
    }
    let file = file.trim_end_matches(')');
    Some(format!("[{}]", file.rsplit('/').next().unwrap_or(file)))
}

/// Removes the hash that the compiler adds to a Rust function: `::h` and sixteen digits.
fn without_hash(function: &str) -> &str {
    match function.rsplit_once("::h") {
        Some((name, hash)) if hash.len() == 16 && hash.bytes().all(|b| b.is_ascii_hexdigit()) => {
            name
        }
        _ => function,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
# captured on a machine
tokio-rt-1 812/813 [001]  1.5:   5000000 cpu-clock:
\t55d0 node::route::answer::h0123456789abcdef+0x1f (/usr/bin/credenza)
\t55d1 core::ops::function::FnOnce::call_once+0x5 (/usr/bin/credenza)
\tffff [unknown] ([kernel.kallsyms])

tokio-rt-2 812/814 [001]  1.6:   5000000 cpu-clock:
\t55d0 node::route::answer::h0123456789abcdef+0x2f (/usr/bin/credenza)
\t55d1 core::ops::function::FnOnce::call_once+0x5 (/usr/bin/credenza)
\tffff [unknown] ([kernel.kallsyms])

log writer 812/815 [000]  1.6:   5000000 cpu-clock:
\t1000 fdatasync (/lib/libc.so.6)
";

    #[test]
    fn equal_stacks_of_numbered_threads_are_counted_together() {
        let stacks = fold(TEXT);
        let names = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let answer = "node::route::answer";
        let call = "core::ops::function::FnOnce::call_once";
        let expected = Stacks::from([
            (names(&["tokio-rt", "[[kernel.kallsyms]]", call, answer]), 2),
            (names(&["log writer", "fdatasync"]), 1),
        ]);
        assert_eq!(stacks, expected);
        assert!(fold("").is_empty());
    }
}
