//! Flame graph of folded stacks: one row for each depth, callers below, widths by samples.

use super::stacks::Stacks;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Width of the graph and height of a row, in pixels.
const WIDTH: f64 = 1200.0;
const ROW: f64 = 16.0;
/// Height above the rows, for the title.
const TOP: f64 = 30.0;
/// Narrowest frame that is drawn, in pixels: narrower ones can't be seen.
const NARROWEST: f64 = 0.3;
/// Pixels of a character (estimate), and the fewest characters that are worth a text.
const CHARACTER: f64 = 6.5;
const TEXT_MIN: usize = 4;

/// A function in one place of the graph: its samples, and the functions that it called.
#[derive(Default)]
struct CallFrame<'a> {
    samples: u64,
    callees: BTreeMap<&'a str, CallFrame<'a>>,
}

impl<'a> CallFrame<'a> {
    fn add(&mut self, stack: &'a [String], samples: u64) {
        self.samples += samples;
        if let Some((first, rest)) = stack.split_first() {
            self.callees.entry(first).or_default().add(rest, samples);
        }
    }

    /// Returns the number of rows that are wide enough to be drawn, this frame's included.
    fn depth(&self, samples_min: f64) -> usize {
        let callees = self.callees.values().filter(|callee| callee.samples as f64 >= samples_min);
        1 + callees.map(|callee| callee.depth(samples_min)).max().unwrap_or(0)
    }
}

/// Draws the graph of these stacks.
pub fn draw(title: &str, stacks: &Stacks) -> String {
    let mut root = CallFrame::default();
    stacks.iter().for_each(|(stack, samples)| root.add(stack, *samples));
    let pixels = WIDTH / root.samples.max(1) as f64;
    let height = TOP + ROW * root.depth(NARROWEST / pixels) as f64 + 4.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"monospace\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"8\" y=\"19\" font-size=\"15\">{}: {} samples</text>\n",
        escape(title),
        root.samples
    );
    let graph = GraphScale { pixels, total: root.samples.max(1), height };
    graph.draw_frame(&mut svg, "all", &root, (0.0, 0));
    svg.push_str("</svg>\n");
    svg
}

/// Scale of a graph.
struct GraphScale {
    pixels: f64,
    total: u64,
    height: f64,
}

impl GraphScale {
    /// Draws a frame and what it called; `place` is its left edge and its row from below.
    fn draw_frame(&self, svg: &mut String, name: &str, frame: &CallFrame<'_>, place: (f64, usize)) {
        let width = frame.samples as f64 * self.pixels;
        if width < NARROWEST {
            return;
        }
        let (left, row) = place;
        let top = self.height - 4.0 - ROW * (row + 1) as f64;
        let share = frame.samples as f64 / self.total as f64 * 100.0;
        // A write to a text can't fail.
        let _ = write!(
            svg,
            "<g><title>{}: {share:.1} % ({} samples)</title><rect x=\"{left:.1}\" y=\"{top:.1}\" \
             width=\"{:.1}\" height=\"{:.1}\" fill=\"{}\"/>",
            escape(name),
            frame.samples,
            (width - 0.3).max(0.1),
            ROW - 1.0,
            colour(name)
        );
        let room = (width / CHARACTER) as usize;
        if room >= TEXT_MIN {
            let shown: String = name.chars().take(room).collect();
            let (x, y) = (left + 2.0, top + 11.0);
            let _ = write!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escape(&shown));
        }
        svg.push_str("</g>\n");
        let mut left = left;
        for (name, callee) in &frame.callees {
            self.draw_frame(svg, name, callee, (left, row + 1));
            left += callee.samples as f64 * self.pixels;
        }
    }
}

/// Returns a warm colour that depends on the name alone, so that graphs can be compared.
fn colour(name: &str) -> String {
    let hash = name.bytes().fold(7u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
    let (green, blue) = (100 + hash % 120, 40 + hash / 120 % 50);
    format!("#{:02x}{green:02x}{blue:02x}", 205 + hash / 6_000 % 50)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_as_wide_as_their_share_and_narrow_ones_are_left_out() {
        let stack = |names: &[&str]| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
        let stacks = Stacks::from([
            (stack(&["server", "read<T>"]), 7_500),
            (stack(&["server", "write"]), 2_499),
            (stack(&["server", "rare", "rarer"]), 1),
        ]);
        let svg = draw("a load", &stacks);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        assert!(svg.contains("a load: 10000 samples"));
        assert!(svg.contains("<title>read&lt;T&gt;: 75.0 % (7500 samples)</title>"), "{svg}");
        assert!(svg.contains("width=\"899.7\""), "{svg}");
        assert!(!svg.contains("rarer"), "a frame of a tenth of a pixel is not drawn");
        assert_eq!(svg, draw("a load", &stacks), "equal samples give equal graphs");
    }
}
