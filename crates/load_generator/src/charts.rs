//! Line and bar charts as SVG, without fonts or programs of the machine.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The chart's size without its legend, in pixels.
const SIZE: (u32, u32) = (960, 480);
/// Pixels of a legend's line, of the colour sample before its text, and of a character (estimate).
const LEGEND_LINE: i32 = 22;
const SAMPLE: i32 = 26;
const CHARACTER: usize = 8;
const COLOURS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(214, 39, 40),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(23, 190, 207),
    RGBColor(127, 127, 127),
];

/// An axis: its label and its scale.
#[derive(Clone, Debug)]
pub struct Axis {
    /// Label of the axis, with the unit.
    pub label: String,
    /// Scale: the spacing and the format of the numbers.
    pub scale: Scale,
}

/// Spacing of the numbers on an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Spacing by value, from 0 or below.
    Linear,
    /// Spacing by powers of ten.
    Logarithmic,
    /// The numbers are indexes into this list of names.
    Names(Vec<String>),
    /// The numbers are `log10(1 / (1 - p))`: 1 is the 90th percentile, 2 the 99th, 3 the 99.9th.
    Percentiles,
}

/// Weight of a line among those of one colour. Dashes are no alternative: each is an SVG element,
/// so a chart of some hundred points would have a megabyte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineWeight {
    /// The full colour.
    Strong,
    /// A lighter shade.
    Medium,
    /// The lightest shade.
    Faint,
}

impl LineWeight {
    /// All of them, the strongest first.
    pub const ALL: [LineWeight; 3] = [LineWeight::Strong, LineWeight::Medium, LineWeight::Faint];

    fn opacity(self) -> f64 {
        match self {
            LineWeight::Strong => 1.0,
            LineWeight::Medium => 0.6,
            LineWeight::Faint => 0.35,
        }
    }
}

/// A line, or the bars of one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Points of the line, or tops of the bars, as (x, y).
    pub points: Vec<(f64, f64)>,
    /// Number in the palette. `None`: the index among the series.
    colour: Option<usize>,
    weight: LineWeight,
}

impl Series {
    /// Returns a solid line, or bars, in a colour that depends on the index among the series.
    pub fn new(name: impl Into<String>, points: Vec<(f64, f64)>) -> Series {
        Series { name: name.into(), points, colour: None, weight: LineWeight::Strong }
    }

    /// Sets the line's colour (a number in the palette) and weight: related lines share a colour.
    pub fn with_style(self, colour: usize, weight: LineWeight) -> Series {
        Series { colour: Some(colour), weight, ..self }
    }

    fn style(&self, index: usize) -> ShapeStyle {
        let colour = COLOURS[self.colour.unwrap_or(index) % COLOURS.len()];
        colour.mix(self.weight.opacity()).stroke_width(2)
    }
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// Text above it; a second line is smaller.
    pub title: String,
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Lines or groups of bars, in the order of the legend.
    pub series: Vec<Series>,
}

impl Axis {
    /// Returns an axis.
    pub fn new(label: &str, scale: Scale) -> Axis {
        Axis { label: label.into(), scale }
    }

    fn scaled(&self, number: f64) -> f64 {
        match self.scale {
            Scale::Logarithmic => number.max(1e-9).log10(),
            _ => number,
        }
    }

    fn tick_text(&self, position: f64) -> String {
        match &self.scale {
            Scale::Linear => short(position),
            Scale::Logarithmic => short(10f64.powf(position)),
            Scale::Names(names) => {
                let is_whole = (position - position.round()).abs() < 0.01 && position > -0.5;
                let name = names.get(position.round().max(0.0) as usize).filter(|_| is_whole);
                name.cloned().unwrap_or_default()
            }
            Scale::Percentiles if (position - position.round()).abs() < 0.01 => {
                let text = format!("{:.7}", 100.0 - 100.0 / 10f64.powf(position));
                format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
            Scale::Percentiles => String::new(),
        }
    }

    fn range(&self, numbers: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
        if let Scale::Names(names) = &self.scale {
            return -0.5..names.len() as f64 - 0.5;
        }
        let positions =
            numbers.map(|number| self.scaled(number)).filter(|position| position.is_finite());
        let (low, high) = positions.fold((f64::MAX, f64::MIN), |(low, high), position| {
            (low.min(position), high.max(position))
        });
        if low > high {
            return 0.0..1.0;
        }
        let low = if self.scale == Scale::Logarithmic { low.floor() } else { low.min(0.0) };
        let high = if self.scale == Scale::Logarithmic { high.ceil() } else { high * 1.05 };
        low..if high > low { high } else { low + 1.0 }
    }

    fn tick_count(&self, range: &std::ops::Range<f64>) -> usize {
        match &self.scale {
            Scale::Names(names) => 2 * names.len() + 1,
            Scale::Logarithmic | Scale::Percentiles => (range.end - range.start) as usize + 2,
            Scale::Linear => 10,
        }
    }
}

/// Formats a number in few characters.
pub fn short(number: f64) -> String {
    let (scaled, unit) = match number.abs() {
        size if size >= 1e9 => (number / 1e9, "G"),
        size if size >= 1e6 => (number / 1e6, "M"),
        size if size >= 1e4 => (number / 1e3, "k"),
        _ => (number, ""),
    };
    let digits = match scaled.abs() {
        size if size >= 100.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 || size == 0.0 => 2,
        _ => 3,
    };
    let text = format!("{scaled:.digits$}");
    let text = match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.'),
        false => &text,
    };
    format!("{text}{unit}")
}

impl Chart {
    /// Draws the chart with a line for every series, as the text of an SVG file.
    pub fn lines(&self) -> Result<String, String> {
        let sample = |area: &Area<'_>, at: (i32, i32), style: ShapeStyle| {
            let ends = [at, (at.0 + SAMPLE - 6, at.1)];
            area.draw(&PathElement::new(ends, style)).map_err(error_text)
        };
        self.draw(sample, |chart, index, series| {
            let style = series.style(index);
            let positions: Vec<_> =
                series.points.iter().map(|(x, y)| (self.x.scaled(*x), self.y.scaled(*y))).collect();
            chart.draw_series(LineSeries::new(positions.clone(), style)).map_err(error_text)?;
            if positions.len() <= 50 {
                let dots =
                    positions.iter().map(|position| Circle::new(*position, 3, style.filled()));
                chart.draw_series(dots).map_err(error_text)?;
            }
            Ok(())
        })
    }

    /// Draws the chart with grouped bars, one group for every name of the x axis.
    pub fn bars(&self) -> Result<String, String> {
        let series_count = self.series.len().max(1) as f64;
        let sample = |area: &Area<'_>, at: (i32, i32), style: ShapeStyle| {
            let corners = [(at.0, at.1 - 5), (at.0 + SAMPLE - 12, at.1 + 5)];
            area.draw(&Rectangle::new(corners, style.filled())).map_err(error_text)
        };
        self.draw(sample, |chart, index, series| {
            let style = series.style(index).filled();
            let width = 0.8 / series_count;
            let left = |x: f64| x - 0.4 + width * index as f64;
            let bars = series.points.iter().map(|(x, y)| {
                let top = (left(*x) + width * 0.94, self.y.scaled(*y));
                Rectangle::new([(left(*x), self.y.scaled(0.0)), top], style)
            });
            chart.draw_series(bars).map_err(error_text)?;
            let numbers = series.points.iter().map(|(x, y)| {
                let middle = (left(*x) + width * 0.47, self.y.scaled(*y));
                // Outside the bar, where its colour does not hide the number.
                Text::new(short(*y), middle, centred_above(11))
            });
            chart.draw_series(numbers).map_err(error_text)?;
            Ok(())
        })
    }

    fn draw(
        &self,
        sample: impl Fn(&Area<'_>, (i32, i32), ShapeStyle) -> DrawResult,
        mut draw_series: impl FnMut(&mut PlotContext<'_, '_>, usize, &Series) -> DrawResult,
    ) -> Result<String, String> {
        let titled_error = |error: String| format!("{}: {error}", self.title);
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x_range = self.x.range(points().map(|point| point.0));
        let y_range = self.y.range(points().map(|point| point.1));
        let name_length = self.series.iter().map(|series| series.name.chars().count()).max();
        let legend = name_length.map_or(0, |name_length| SAMPLE as usize + name_length * CHARACTER);
        let mut text = String::new();
        {
            let size = (SIZE.0 + legend as u32, SIZE.1);
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            area.fill(&WHITE).map_err(error_text).map_err(titled_error)?;
            // Beside the data, so that the legend hides none of it.
            let (left, right) = area.split_horizontally(SIZE.0);
            let left = self.draw_title(&left).map_err(titled_error)?;
            let mut chart = self.draw_axes(&left, x_range, y_range).map_err(titled_error)?;
            for (index, series) in self.series.iter().enumerate() {
                draw_series(&mut chart, index, series).map_err(titled_error)?;
            }
            let font = ("sans-serif", 13).into_font();
            for (index, series) in self.series.iter().enumerate() {
                let at = (0, 2 * LEGEND_LINE + LEGEND_LINE * index as i32);
                sample(&right, at, series.style(index)).map_err(titled_error)?;
                let name = Text::new(series.name.as_str(), (SAMPLE, at.1 - 7), font.clone());
                right.draw(&name).map_err(error_text).map_err(titled_error)?;
            }
            area.present().map_err(error_text).map_err(titled_error)?;
        }
        Ok(text)
    }

    /// Writes the title; returns the area below it.
    fn draw_title<'a>(&self, area: &Area<'a>) -> Result<Area<'a>, String> {
        let mut lines = self.title.lines();
        let remaining = area.titled(lines.next().unwrap_or_default(), ("sans-serif", 18));
        lines.try_fold(remaining.map_err(error_text)?, |remaining, line| {
            remaining.titled(line, ("sans-serif", 12)).map_err(error_text)
        })
    }

    fn draw_axes<'a, 'b>(
        &self,
        area: &'b Area<'a>,
        x_range: std::ops::Range<f64>,
        y_range: std::ops::Range<f64>,
    ) -> Result<PlotContext<'a, 'b>, String> {
        let (x_ticks, y_ticks) = (self.x.tick_count(&x_range), self.y.tick_count(&y_range));
        let median = (self.x.scale == Scale::Percentiles && x_range.contains(&MEDIAN))
            .then_some([(MEDIAN, y_range.start), (MEDIAN, y_range.end)]);
        let mut chart = ChartBuilder::on(area)
            .margin(12)
            .x_label_area_size(44)
            .y_label_area_size(70)
            .build_cartesian_2d(x_range, y_range)
            .map_err(error_text)?;
        chart
            .configure_mesh()
            .light_line_style(WHITE)
            .x_labels(x_ticks)
            .y_labels(y_ticks)
            .x_label_formatter(&|position| self.x.tick_text(*position))
            .y_label_formatter(&|position| self.y.tick_text(*position))
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .label_style(("sans-serif", 13))
            .draw()
            .map_err(error_text)?;
        // The axis has marks at whole nines only; the median, which readers look for first, is
        // added.
        if let Some(ends) = median {
            let line = PathElement::new(ends, BLACK.mix(0.3));
            chart.draw_series([line]).map_err(error_text)?;
            let label = Text::new("50%", ends[0], centred_above(13));
            chart.draw_series([label]).map_err(error_text)?;
        }
        Ok(chart)
    }
}

/// `log10(1 / (1 - 0.5))`: the position of the median.
const MEDIAN: f64 = std::f64::consts::LOG10_2;

/// Returns the style of a text that is centred above its position.
fn centred_above(size: u32) -> TextStyle<'static> {
    TextStyle::from(("sans-serif", size).into_font()).pos(Pos::new(HPos::Center, VPos::Bottom))
}

fn error_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

type DrawResult = Result<(), String>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;
type PlotContext<'a, 'b> = ChartContext<
    'b,
    SVGBackend<'a>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
