//! Line and bar charts as SVG, without fonts or programs of the machine.

use plotters::prelude::*;

const SIZE: (u32, u32) = (960, 480);
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

/// An axis: what it shows, and how.
#[derive(Clone, Debug)]
pub struct Axis {
    /// What it shows, with the unit.
    pub label: String,
    /// How numbers are spread and written.
    pub scale: Scale,
}

/// How an axis spreads its numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Evenly, from 0 or below.
    Linear,
    /// By powers of ten.
    Logarithmic,
    /// The numbers are places in this list of names.
    Names(Vec<String>),
    /// The numbers are `log10(1 / (1 - p))`: 1 is the 90th percentile, 2 the 99th, 3 the 99.9th.
    Percentiles,
}

/// A line, or the bars of one colour.
#[derive(Clone, Debug)]
pub struct Series {
    /// What the legend calls it.
    pub name: String,
    /// Where it goes through.
    pub points: Vec<(f64, f64)>,
}

/// A chart.
#[derive(Clone, Debug)]
pub struct Chart {
    /// What stands above it.
    pub title: String,
    /// To the right.
    pub x: Axis,
    /// Upwards.
    pub y: Axis,
    /// What it shows.
    pub series: Vec<Series>,
}

impl Axis {
    /// An axis.
    pub fn new(label: &str, scale: Scale) -> Axis {
        Axis { label: label.into(), scale }
    }

    fn place(&self, number: f64) -> f64 {
        match self.scale {
            Scale::Logarithmic => number.max(1e-9).log10(),
            _ => number,
        }
    }

    fn text(&self, place: f64) -> String {
        match &self.scale {
            Scale::Linear => short(place),
            Scale::Logarithmic => short(10f64.powf(place)),
            Scale::Names(names) => {
                let whole = (place - place.round()).abs() < 0.01 && place > -0.5;
                let name = names.get(place.round().max(0.0) as usize).filter(|_| whole);
                name.cloned().unwrap_or_default()
            }
            Scale::Percentiles if (place - place.round()).abs() < 0.01 => {
                let text = format!("{:.7}", 100.0 - 100.0 / 10f64.powf(place));
                format!("{}%", text.trim_end_matches('0').trim_end_matches('.'))
            }
            Scale::Percentiles => String::new(),
        }
    }

    fn range(&self, numbers: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
        if let Scale::Names(names) = &self.scale {
            return -0.5..names.len() as f64 - 0.5;
        }
        let places = numbers.map(|number| self.place(number)).filter(|place| place.is_finite());
        let (low, high) = places
            .fold((f64::MAX, f64::MIN), |(low, high), place| (low.min(place), high.max(place)));
        if low > high {
            return 0.0..1.0;
        }
        let low = if self.scale == Scale::Logarithmic { low.floor() } else { low.min(0.0) };
        let high = if self.scale == Scale::Logarithmic { high.ceil() } else { high * 1.05 };
        low..if high > low { high } else { low + 1.0 }
    }

    fn marks(&self, range: &std::ops::Range<f64>) -> usize {
        match &self.scale {
            Scale::Names(names) => 2 * names.len() + 1,
            Scale::Logarithmic | Scale::Percentiles => (range.end - range.start) as usize + 2,
            Scale::Linear => 10,
        }
    }
}

/// A number in few letters.
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
    /// The chart with a line for every series, as the text of an SVG file.
    pub fn lines(&self) -> Result<String, String> {
        self.draw(|chart, number, series| {
            let colour = COLOURS[number % COLOURS.len()];
            let places: Vec<_> =
                series.points.iter().map(|(x, y)| (self.x.place(*x), self.y.place(*y))).collect();
            let dots = places.len() <= 50;
            let line = LineSeries::new(places.clone(), colour.stroke_width(2));
            let drawn = chart.draw_series(line).map_err(|error| error.to_string())?;
            drawn.label(series.name.as_str()).legend(move |(x, y)| {
                PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(3))
            });
            if dots {
                let dots = places.iter().map(|place| Circle::new(*place, 3, colour.filled()));
                chart.draw_series(dots).map_err(|error| error.to_string())?;
            }
            Ok(())
        })
    }

    /// The chart with grouped bars, one group for every name of the x axis.
    pub fn bars(&self) -> Result<String, String> {
        let many = self.series.len().max(1) as f64;
        self.draw(|chart, number, series| {
            let colour = COLOURS[number % COLOURS.len()];
            let width = 0.8 / many;
            let bars = series.points.iter().map(|(x, y)| {
                let left = x - 0.4 + width * number as f64;
                let corners = [(left, self.y.place(0.0)), (left + width * 0.94, self.y.place(*y))];
                Rectangle::new(corners, colour.filled())
            });
            let drawn = chart.draw_series(bars).map_err(|error| error.to_string())?;
            drawn.label(series.name.as_str()).legend(move |(x, y)| {
                Rectangle::new([(x, y - 5), (x + 14, y + 5)], colour.filled())
            });
            let texts = series.points.iter().map(|(x, y)| {
                let place = (x - 0.4 + width * number as f64, self.y.place(*y));
                Text::new(short(*y), place, ("sans-serif", 11).into_font())
            });
            chart.draw_series(texts).map_err(|error| error.to_string())?;
            Ok(())
        })
    }

    fn draw(
        &self,
        mut each: impl FnMut(&mut Drawing<'_, '_>, usize, &Series) -> Drawn,
    ) -> Result<String, String> {
        let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", self.title);
        let points = || self.series.iter().flat_map(|series| series.points.iter());
        let x_range = self.x.range(points().map(|point| point.0));
        let y_range = self.y.range(points().map(|point| point.1));
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
            area.fill(&WHITE).map_err(|error| wrong(&error))?;
            let (x_marks, y_marks) = (self.x.marks(&x_range), self.y.marks(&y_range));
            let mut chart = ChartBuilder::on(&area)
                .caption(&self.title, ("sans-serif", 18))
                .margin(12)
                .x_label_area_size(44)
                .y_label_area_size(70)
                .build_cartesian_2d(x_range, y_range)
                .map_err(|error| wrong(&error))?;
            chart
                .configure_mesh()
                .light_line_style(WHITE)
                .x_labels(x_marks)
                .y_labels(y_marks)
                .x_label_formatter(&|place| self.x.text(*place))
                .y_label_formatter(&|place| self.y.text(*place))
                .x_desc(&self.x.label)
                .y_desc(&self.y.label)
                .label_style(("sans-serif", 13))
                .draw()
                .map_err(|error| wrong(&error))?;
            for (number, series) in self.series.iter().enumerate() {
                each(&mut chart, number, series)?;
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperLeft)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .label_font(("sans-serif", 13))
                .draw()
                .map_err(|error| wrong(&error))?;
            area.present().map_err(|error| wrong(&error))?;
        }
        Ok(text)
    }
}

type Drawn = Result<(), String>;
type Drawing<'a, 'b> = ChartContext<
    'a,
    SVGBackend<'b>,
    Cartesian2d<plotters::coord::types::RangedCoordf64, plotters::coord::types::RangedCoordf64>,
>;
