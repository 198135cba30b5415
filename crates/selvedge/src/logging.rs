//! What the log of an agent or a controller looks like.

use clap::{Args, ValueEnum};
use daemon::log;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Args)]
pub struct Logging {
    /// Form of the log on standard error: text, or one JSON object a line
    #[arg(long, value_enum, value_name = "FORM", default_value_t = Form::Text)]
    pub log: Form,
    /// What is logged: errors, warnings too, or all
    #[arg(long, value_enum, value_name = "LEVEL", default_value_t = Level::Info)]
    pub log_level: Level,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Form {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Level {
    Error,
    Warning,
    Info,
}

impl Logging {
    pub(crate) fn start(self) {
        let form = match self.log {
            Form::Text => log::Form::Text,
            Form::Json => log::Form::Json,
        };
        let most = match self.log_level {
            Level::Error => log::Level::ERROR,
            Level::Warning => log::Level::WARN,
            Level::Info => log::Level::INFO,
        };
        log::start(form, most);
    }
}
