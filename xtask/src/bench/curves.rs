//! Costs against the number of something: measured by `bench/budgets`, printed as tables, and drawn as SVG with `--plot`.

use super::report::Report;
use crate::{Result, build_executable, root};
use plotters::prelude::{
    BLUE, ChartBuilder, IntoDrawingArea, IntoLogRange, LineSeries, SVGBackend, WHITE,
};
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

/// A curve of the program's output.
struct Curve {
    name: &'static str,
    title: &'static str,
    x: &'static str,
    y: &'static str,
}

const CURVES: [Curve; 12] = [
    Curve {
        name: "sessions: host",
        title: "Host's cost of an event",
        x: "sessions that record it",
        y: "ns",
    },
    Curve {
        name: "sessions: program",
        title: "Program's cost of an event",
        x: "sessions that record it",
        y: "ns",
    },
    Curve {
        name: "programs: events",
        title: "Host's cost of an event",
        x: "programs that write",
        y: "ns",
    },
    Curve {
        name: "programs: idle",
        title: "A round of the host without events",
        x: "programs that have just written",
        y: "us",
    },
    Curve {
        name: "programs: quiet",
        title: "A round of the host without events",
        x: "quiet programs",
        y: "us",
    },
    Curve {
        name: "threads: event",
        title: "A thread's cost of an event",
        x: "threads that write",
        y: "ns",
    },
    Curve { name: "threads: lost", title: "Lost events", x: "threads that write", y: "%" },
    Curve {
        name: "providers: registering",
        title: "Registering a further provider",
        x: "registered providers",
        y: "us",
    },
    Curve {
        name: "providers: event",
        title: "An event that no session wants",
        x: "registered providers",
        y: "ns",
    },
    Curve { name: "streams", title: "A merged record", x: "CPU streams", y: "ns" },
    Curve { name: "schemas", title: "A decoded event", x: "schemas of the trace", y: "ns" },
    Curve {
        name: "file-size",
        title: "Opening a file, for each of its 64 KiB buffers",
        x: "megabytes",
        y: "ns",
    },
];

type Points = Vec<(f64, f64)>;

/// Measures and reports all curves.
pub fn run(report: &Report, plots: bool) -> Result<()> {
    let program = build_executable("etw-budgets", &["--package", "etw-budgets"], "release")?;
    let output = Command::new(program).arg("curves").stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        return Err("the curves were not measured".into());
    }
    let text = String::from_utf8(output.stdout)?;
    let folder = root().join("target/curves");
    for curve in &CURVES {
        let points = points_of(&text, curve.name)?;
        report.curve(curve.name, &format!("{}, {}", curve.title, curve.y), curve.x, &points);
        if plots {
            std::fs::create_dir_all(&folder)?;
            let file = format!("{}.svg", curve.name.replace(": ", "-"));
            draw(curve, &points, &folder.join(file))?;
        }
    }
    Ok(())
}

/// The points of a curve, from lines of its name, x and y.
fn points_of(text: &str, name: &str) -> Result<Points> {
    let mut points = Vec::new();
    for line in text.lines() {
        let mut parts = line.split('\t');
        if parts.next() == Some(name) {
            let mut number =
                || Ok::<f64, Box<dyn Error>>(parts.next().unwrap_or_default().parse()?);
            points.push((number()?, number()?));
        }
    }
    if points.is_empty() { Err(format!("no points of {name}").into()) } else { Ok(points) }
}

/// Draws a curve over a logarithmic x, from zero upwards.
fn draw(curve: &Curve, points: &[(f64, f64)], path: &Path) -> Result<()> {
    let error = |error: &dyn Error| -> Box<dyn Error> { error.to_string().into() };
    let area = SVGBackend::new(path, (640, 360)).into_drawing_area();
    area.fill(&WHITE).map_err(|e| error(&e))?;
    let last = points.last().map_or(1.0, |point| point.0);
    let first = points.first().map_or(1.0, |point| point.0);
    let highest = points.iter().fold(0.0, |highest: f64, point| highest.max(point.1)).max(1e-3);
    let mut chart = ChartBuilder::on(&area)
        .caption(curve.title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d((first..last).log_scale(), 0.0..highest * 1.1)
        .map_err(|e| error(&e))?;
    chart.configure_mesh().x_desc(curve.x).y_desc(curve.y).draw().map_err(|e| error(&e))?;
    chart.draw_series(LineSeries::new(points.iter().copied(), &BLUE)).map_err(|e| error(&e))?;
    area.present().map_err(|e| error(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_has_the_points_of_its_name() {
        let text = "a\t1\t2.5\nb\t1\t9\na\t10\t3\n";
        assert_eq!(points_of(text, "a").unwrap(), [(1.0, 2.5), (10.0, 3.0)]);
        assert!(points_of(text, "c").is_err());
        assert!(points_of("a\tx\t1", "a").is_err());
    }

    #[test]
    fn a_drawing_has_the_titles_of_its_curve() {
        let path = std::env::temp_dir().join(format!("xtask-curve-{}.svg", std::process::id()));
        draw(&CURVES[0], &[(1.0, 30.0), (8.0, 200.0)], &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.contains("<polyline") && text.contains(CURVES[0].x), "{text}");
    }
}
