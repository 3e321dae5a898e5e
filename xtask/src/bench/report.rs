//! Output of the bench: a table for people, or a JSON object a line.

use super::machine::State;
use serde_json::json;

/// One measured figure.
pub struct Figure<'f> {
    pub name: &'f str,
    pub best: f64,
    pub median: Option<f64>,
    /// How far rounds lie from a figure that is their median.
    pub spread: Option<f64>,
    pub unit: Unit,
    pub goal: Goal,
    /// The value of `--only` that measures it again, with further options.
    pub only: &'f str,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Unit {
    /// Millions of records a second.
    MillionsPerSecond,
    Mebibytes,
    Nanoseconds,
    Milliseconds,
    Percent,
    GigabytesPerSecond,
    Bytes,
    Events,
    /// The ratio of two figures of the same run.
    Ratio,
    /// The number of outputs that differ from the first.
    Differences,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Goal {
    None,
    AtLeast(f64),
    AtMost(f64),
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::MillionsPerSecond => "M/s",
            Unit::Mebibytes => "MiB",
            Unit::Nanoseconds => "ns",
            Unit::Milliseconds => "ms",
            Unit::Percent => "%",
            Unit::GigabytesPerSecond => "GB/s",
            Unit::Bytes => "B",
            Unit::Events => "events",
            Unit::Ratio => "x",
            Unit::Differences => "differ",
        }
    }

    fn decimals(self) -> usize {
        match self {
            Unit::MillionsPerSecond | Unit::Ratio | Unit::GigabytesPerSecond => 2,
            Unit::Mebibytes | Unit::Nanoseconds => 1,
            Unit::Milliseconds | Unit::Percent => 1,
            Unit::Differences | Unit::Bytes | Unit::Events => 0,
        }
    }
}

/// The word of a figure on its goal.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// There is no goal.
    None,
    Met,
    Missed,
    /// Rounds differ by more than the figure from its goal.
    WithinNoise,
}

impl Verdict {
    fn text(self) -> &'static str {
        match self {
            Verdict::None => "",
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::WithinNoise => "within noise",
        }
    }
}

impl Goal {
    fn verdict(self, value: f64, spread: Option<f64>) -> Verdict {
        let (goal, is_met) = match self {
            Goal::None => return Verdict::None,
            Goal::AtLeast(least) => (least, value >= least),
            Goal::AtMost(most) => (most, value <= most),
        };
        match is_met {
            _ if spread.is_some_and(|spread| spread > (value - goal).abs()) => Verdict::WithinNoise,
            true => Verdict::Met,
            false => Verdict::Missed,
        }
    }

    fn text(self) -> String {
        match self {
            Goal::None => String::new(),
            Goal::AtLeast(least) => format!(">= {least}"),
            Goal::AtMost(most) => format!("<= {most}"),
        }
    }
}

/// Prints figures as they come, and counts goals that were missed.
pub struct Report {
    json: bool,
    missed: u32,
}

impl Report {
    pub fn new(json: bool) -> Report {
        if !json {
            println!(
                "{:<52} {:>8} {:>8} {:<6} {:>9} {:<12}  command",
                "figure", "best", "median", "unit", "goal", ""
            );
        }
        Report { json, missed: 0 }
    }

    pub fn add(&mut self, figure: &Figure) {
        let verdict = figure.goal.verdict(figure.best, figure.spread);
        self.missed += u32::from(verdict == Verdict::Missed);
        let command = format!("cargo xtask bench --only {}", figure.only);
        if self.json {
            let (at_least, at_most) = match figure.goal {
                Goal::None => (None, None),
                Goal::AtLeast(least) => (Some(least), None),
                Goal::AtMost(most) => (None, Some(most)),
            };
            let met = match verdict {
                Verdict::None | Verdict::WithinNoise => None,
                Verdict::Met => Some(true),
                Verdict::Missed => Some(false),
            };
            let object = json!({
                "figure": figure.name, "best": figure.best, "median": figure.median,
                "spread": figure.spread, "unit": figure.unit.name(), "at_least": at_least, "at_most": at_most,
                "met": met, "within_noise": verdict == Verdict::WithinNoise, "command": command,
            });
            println!("{object}");
            return;
        }
        let decimals = figure.unit.decimals();
        let median = figure.median.map(|median| format!("{median:.decimals$}"));
        let spread = figure.spread.map(|spread| format!("±{spread:.decimals$}"));
        let median = median.or(spread).unwrap_or_default();
        println!(
            "{:<52} {:>8.decimals$} {median:>8} {:<6} {:>9} {:<12}  {command}",
            figure.name,
            figure.best,
            figure.unit.name(),
            figure.goal.text(),
            verdict.text()
        );
    }

    /// Reports the points of a curve.
    pub fn curve(&self, name: &str, title: &str, x: &str, points: &[(f64, f64)]) {
        if self.json {
            println!("{}", json!({ "curve": name, "title": title, "x": x, "points": points }));
            return;
        }
        println!("{name}: {title}, by {x}");
        for (x, y) in points {
            println!("{x:>10} {y:>12.2}");
        }
    }

    /// Reports the machine's state during a group: figures of two runs compare only if these do.
    pub fn machine(&self, group: &str, state: &State) {
        let State { clock_ns, copy_ns, steal_percent, others_percent, load } = state;
        if self.json {
            let object = json!({
                "machine": group, "clock_ns": clock_ns, "copy_256_ns": copy_ns,
                "steal_percent": steal_percent, "others_percent": others_percent, "load": load,
            });
            println!("{object}");
            return;
        }
        let shown = |share: &Option<f64>| share.map_or("?".into(), |share| format!("{share:.1}"));
        println!(
            "machine during {group}: clock read {clock_ns:.1} ns, copy of 256 B {copy_ns:.1} ns, steal {} %, other processes {} %, load {}",
            shown(steal_percent),
            shown(others_percent),
            shown(load)
        );
    }

    /// Reports a figure that was not measured, and why.
    pub fn skip(&self, what: &str, why: &str) {
        if self.json {
            println!("{}", json!({ "figure": what, "skipped": why }));
        } else {
            println!("skipped: {what}: {why}");
        }
    }

    /// Reports the number of missed goals.
    pub fn finish(self) -> u32 {
        if !self.json {
            println!("{} goals missed", self.missed);
        }
        self.missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_hold_at_their_border() {
        assert_eq!(Goal::None.verdict(1.0, None), Verdict::None);
        assert_eq!(Goal::AtLeast(2.0).verdict(2.0, None), Verdict::Met);
        assert_eq!(Goal::AtLeast(2.0).verdict(1.9, None), Verdict::Missed);
        assert_eq!(Goal::AtMost(0.0).verdict(0.0, Some(0.0)), Verdict::Met);
        assert_eq!(Goal::AtMost(0.0).verdict(1.0, None), Verdict::Missed);
        assert_eq!(Goal::AtMost(0.0).verdict(f64::NAN, Some(0.0)), Verdict::Missed);
    }

    #[test]
    fn a_figure_nearer_to_its_goal_than_its_rounds_says_nothing() {
        let goal = Goal::AtMost(1.1);
        assert_eq!(goal.verdict(1.0, Some(0.05)), Verdict::Met);
        assert_eq!(goal.verdict(1.0, Some(0.2)), Verdict::WithinNoise);
        assert_eq!(goal.verdict(1.2, Some(0.2)), Verdict::WithinNoise);
        assert_eq!(goal.verdict(1.2, Some(0.05)), Verdict::Missed);
        assert_eq!(Goal::None.verdict(1.2, Some(0.2)), Verdict::None);
    }
}
