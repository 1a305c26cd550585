//! View of a running load on the whole terminal.

use super::progress;
use crate::charts::short;
use crate::config::Config;
use crate::load::{ReportRow, RunObserver, RunPart};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Gauge, Paragraph, Row as Cells, Sparkline, Table};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Largest number of intervals shown.
const INTERVALS_MAX: usize = 400;

/// View that redraws every interval; `q`, Escape or Ctrl-C ends the run.
pub struct Live {
    terminal: DefaultTerminal,
    title: String,
    labels: Vec<String>,
    total_s: f64,
    per_second: VecDeque<u64>,
    errors: BTreeMap<String, u64>,
    last: Option<ReportRow>,
}

impl Live {
    /// Takes over the terminal until it is dropped.
    pub fn new(config: &Config, title: String) -> Result<Live, String> {
        let terminal = ratatui::try_init().map_err(|error| format!("no terminal: {error}"))?;
        Ok(Live {
            terminal,
            title,
            labels: config.operations.iter().map(|weighted| weighted.label.clone()).collect(),
            total_s: config.duration.map_or(0.0, |duration| duration.as_secs_f64()),
            per_second: VecDeque::new(),
            errors: BTreeMap::new(),
            last: None,
        })
    }

    fn draw(&mut self) -> Result<(), String> {
        let Some(row) = &self.last else { return Ok(()) };
        let per_second: Vec<u64> = self.per_second.iter().copied().collect();
        let table = latencies(row, &self.labels);
        let errors: Vec<_> = self
            .errors
            .iter()
            .map(|(error, count)| {
                Line::styled(format!("{count} x {error}"), Style::new().fg(Color::Red))
            })
            .collect();
        let fraction = if self.total_s > 0.0 { row.elapsed_s / self.total_s } else { 0.0 };
        let title = format!(" {} (q ends it) ", self.title);
        let current = format!(" {}/s ", short(row.ok() as f64 / row.window_s.max(1e-9)));
        let operations = self.labels.len() as u16;
        let result = self.terminal.draw(|frame| {
            let [bar, chart, middle, bottom] = Layout::vertical([
                Constraint::Length(3),
                Constraint::Min(6),
                Constraint::Length(operations + 3),
                Constraint::Length(6),
            ])
            .areas(frame.area());
            let gauge = Gauge::default()
                .ratio(fraction.clamp(0.0, 1.0))
                .block(Block::bordered().title(title));
            frame.render_widget(gauge, bar);
            let skip = per_second.len().saturating_sub(chart.width.saturating_sub(2) as usize);
            let spark = Sparkline::default().data(&per_second[skip..]);
            frame.render_widget(spark.block(Block::bordered().title(current)), chart);
            frame.render_widget(table, middle);
            let errors = Paragraph::new(errors).block(Block::bordered().title(" errors "));
            frame.render_widget(errors, bottom);
        });
        result.map(|_| ()).map_err(|error| format!("no terminal: {error}"))
    }
}

fn latencies<'a>(row: &ReportRow, labels: &[String]) -> Table<'a> {
    let rows = labels.iter().zip(&row.operations).map(|(label, operation)| {
        let per_second = short(operation.ok as f64 / row.window_s.max(1e-9));
        let mut cells = vec![label.clone(), per_second];
        let quantiles = [0.5, 0.95, 0.99, 0.999, 1.0];
        cells.extend(quantiles.map(|quantile| match &operation.latency {
            Some(latency) => short(latency.value_at_quantile(quantile) as f64 / 1000.0),
            None => "-".into(),
        }));
        Cells::new(cells)
    });
    let header = Cells::new(["", "op/s", "p50 us", "p95", "p99", "p99.9", "max"]);
    let mut widths = [Constraint::Length(12); 7];
    widths[0] = Constraint::Min(12);
    Table::new(rows, widths).header(header).block(Block::bordered().title(" latency "))
}

impl RunObserver for Live {
    fn row(&mut self, row: &ReportRow) -> Result<(), String> {
        self.per_second.push_back((row.ok() as f64 / row.window_s.max(1e-9)) as u64);
        if self.per_second.len() > INTERVALS_MAX {
            self.per_second.pop_front();
        }
        if row.part == RunPart::Measured {
            for (label, operation) in self.labels.iter().zip(&row.operations) {
                for (kind, count) in &operation.errors {
                    *self.errors.entry(format!("{label} {kind}")).or_default() += count;
                }
            }
        }
        self.last = Some(row.clone());
        self.draw()
    }

    fn should_continue(&mut self) -> bool {
        while event::poll(Duration::ZERO).unwrap_or(false) {
            if let Ok(Event::Key(key)) = event::read() {
                let control_c =
                    key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
                if control_c || matches!(key.code, KeyCode::Char('q') | KeyCode::Esc) {
                    return false;
                }
            }
        }
        true
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
        // The last numbers stay readable below the prompt.
        if let Some(row) = &self.last {
            println!("{}", progress::line(row, &self.labels));
        }
    }
}
