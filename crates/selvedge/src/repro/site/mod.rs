//! `selvedge repro --site DIR`: the list of claims and the measured results as pages that open from files, with no network.
//!
//! One page an experiment, beside an index of all claims. Text and tables are written here and are complete without script;
//! the charts are drawn by `assets/site/site.js` with ECharts from the JSON in each page. The same records give the same bytes.

mod curve;
mod figure;
mod index;
mod page;
mod prose;

use super::catalogue::{catalogues, Catalogue};
use super::file::{Experiment, Mode};
use super::kept::Kept;
use super::printed::{printed, Printed};
use super::prose::{prose as sections, Section};
use crate::output::Staging;
use crate::Failure;
use config::ConfigError;
use std::path::Path;

const ECHARTS: &str = include_str!("../../../assets/echarts/echarts.min.js");
const SCRIPT: &str = include_str!("../../../assets/site/site.js");
const ERRORS: &str = include_str!("../../../assets/report/errors.js");
/// Colours and type of the reports, then what the site adds.
const STYLE: [&str; 2] =
    [include_str!("../../../assets/report/page.css"), include_str!("../../../assets/site/site.css")];

/// Writes the site; returns how many pages it has. `records`: the directory with the records, else those in the binary.
///
/// # Errors
/// Records that do not read, or a directory that cannot be written.
pub(super) fn write(dir: &Path, records: Option<&Path>, force: bool) -> Result<usize, Failure> {
    let kept = Kept::read(records)?;
    let experiments = super::experiments()?;
    let claims = catalogues()?;
    let (printed, prose) = (printed()?, sections()?);
    let sources = Sources { claims: &claims, kept: &kept, printed: &printed, prose: &prose };
    let staging = Staging::new(dir, force)?;
    staging.write("echarts.min.js", ECHARTS)?;
    staging.write("site.js", [ERRORS, SCRIPT].concat())?;
    staging.write("site.css", STYLE.concat())?;
    for experiment in &experiments {
        let about = About::of(experiment)?;
        staging.write(&page_of(experiment), figure::render(experiment, &about, &sources))?;
    }
    staging.write("index.html", index::render(&experiments, &sources))?;
    staging.commit()?;
    Ok(experiments.len() + 1)
}

/// `presto-fig15.html`
fn page_of(experiment: &Experiment) -> String {
    format!("{}.html", experiment.file.trim_end_matches(".toml").replace('/', "-"))
}

/// What all pages are made from.
struct Sources<'a> {
    claims: &'a [Catalogue],
    kept: &'a Kept,
    printed: &'a [Printed],
    prose: &'a [Section],
}

/// What a page says of its scenario.
struct About {
    title: String,
    description: String,
    /// The configuration in effect at the first point of a full run.
    effective: String,
}

impl About {
    fn of(experiment: &Experiment) -> Result<About, ConfigError> {
        let first = experiment.labels().into_iter().next().unwrap_or_default();
        let plan = experiment.points(Mode::Full, &|label| label == first)?.into_iter().next().map(|point| point.plan);
        let scenario = plan.as_ref().map(|plan| &plan.scenario);
        Ok(About {
            title: scenario.map_or_else(|| experiment.file.clone(), |scenario| scenario.title.clone()),
            description: scenario.map(|scenario| scenario.description.clone()).unwrap_or_default(),
            effective: plan.map(|plan| plan.effective()).unwrap_or_default(),
        })
    }
}
