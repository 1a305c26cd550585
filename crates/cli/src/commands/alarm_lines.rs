//! Lines of alarms below a verdict: severity, text, remedy and code of each.

use crate::output::{printable_text, wrap};
use crate::paint::Paint;
use api::Alarm;

/// Returns the lines of alarms, except of those whose text the verdict contains.
pub fn alarm_lines(alarms: &[Alarm], verdict: &str, paint: Paint) -> String {
    let is_new = |alarm: &&Alarm| !verdict.contains(&printable_text(&alarm.text));
    alarms.iter().filter(is_new).map(|alarm| line(alarm, paint)).collect()
}

fn line(alarm: &Alarm, paint: Paint) -> String {
    let [severity, text, remedy, code] =
        [&alarm.severity, &alarm.text, &alarm.remedy, &alarm.code].map(|text| printable_text(text));
    let label = format!("{severity}:");
    let painted = match severity.as_str() {
        "critical" => paint.bad(&label),
        "notice" => paint.head(&label),
        _ => paint.warning(&label),
    };
    format!("{painted}{}", wrap(&format!("{text}; {remedy} ({code})"), label.len() + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarm_line_names_severity_text_remedy_and_code_without_control_characters() {
        let alarm = Alarm {
            code: "disk_full".into(),
            severity: "critical".into(),
            text: "the disk\n\u{1b}[2Jis full".into(),
            remedy: "free some space".into(),
            ..Alarm::default()
        };
        let alarms = [alarm];
        assert_eq!(
            alarm_lines(&alarms, "", Paint::OFF),
            "critical: the disk\\x0a\\x1b[2Jis full; free some space (disk_full)\n"
        );
        let verdict = "NOT READY: the disk\\x0a\\x1b[2Jis full; free it";
        assert_eq!(alarm_lines(&alarms, verdict, Paint::OFF), "");
    }
}
