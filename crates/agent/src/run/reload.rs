//! A new configuration, or new schedules from the controller.

use super::begin::check_operator;
use super::wait::now;
use super::Load;
use super::{follow, notify, Runner};
use crate::desired;
use crate::error::{Error, Result};
use crate::follow::{Followed, News};
use crate::host::look_around;
use crate::interfaces::Netlink;
use crate::metrics;
use crate::reports::Reports;
use crate::requested::Configured;
use agent_api::config::Config;
use sd_notify::NotifyState;
use tracing::{error, info, warn};

impl Runner {
    /// Takes a new configuration as a whole, or keeps the old one.
    pub(super) async fn reload(&mut self, load: &mut Load<'_>) -> std::result::Result<(), String> {
        let mut states = vec![NotifyState::Reloading];
        states.extend(NotifyState::monotonic_usec_now());
        notify(&states);
        let done = match load() {
            Ok(config) => self.replace(config).await.map_err(|e| e.to_string()),
            Err(why) => Err(why),
        };
        notify(&[NotifyState::Ready]);
        match &done {
            Ok(()) => {
                info!("configuration reloaded");
                self.tally.reloads += 1;
                self.tally.reload_error.clear();
            }
            Err(why) => {
                let mut faults = why.lines();
                let first = faults.next().unwrap_or_default();
                error!("the old configuration stays in force: {first}");
                faults.for_each(|fault| error!("{fault}"));
                self.tally.reload_failures += 1;
                self.tally.reload_error.clone_from(why);
            }
        }
        done
    }

    pub(super) async fn replace(&mut self, mut config: Config) -> Result<()> {
        let old = &self.agent.config;
        for (key, same) in [
            ("agent.pins", config.pins == old.pins),
            ("agent.socket", config.socket == old.socket),
            ("agent.max_flows", config.max_flows == old.max_flows),
            ("agent.place", config.place == old.place),
            ("uplink.mode", config.plain == old.plain),
        ] {
            if !same {
                return Err(Error::Config(format!(
                    "{key} cannot change while the agent runs; stop it and start it anew"
                )));
            }
        }
        let configured = Configured::of(&config);
        configured.fill(&mut config, &self.agent.remembered.requested);
        // Certificates may have been renewed: whoever follows begins anew.
        let follower = follow(&config)?;
        self.agent.netlink.forget();
        let (interfaces, routes) = look_around(&config, &mut self.agent.netlink).await?;
        desired::resolve(&config, &interfaces, &routes).map_err(Error::Named)?;
        check_operator(&config)?;
        if config.metrics != self.metrics.as_ref().map(|server| server.address) {
            self.metrics = match config.metrics {
                Some(at) => Some(metrics::serve(at, self.scrape.clone()).await?),
                None => None,
            };
        }
        match (&mut self.reports, &config.reports) {
            (Some(reports), Some(wanted)) if reports.config().at == wanted.at => reports.follow(wanted),
            _ => self.reports = Reports::open(&config, now())?,
        }
        if (config.uplinks.len() > 1) != (old.uplinks.len() > 1) {
            self.agent.netlink = Netlink::new(config.uplinks.len() > 1)?;
        }
        self.follower = follower;
        self.agent.controller_lost = None;
        self.agent.learnt.carry_over(&config);
        (self.agent.config, self.agent.configured, self.agent.forgotten) = (config, configured, None);
        // Guests whose window is wider now, and who have nothing outstanding, are found by sweeps.
        (self.sweep, self.next_sweep) = (None, now());
        self.agent.apply().await.map(drop)
    }

    /// From the controller.
    pub(super) async fn hear(&mut self, news: News) {
        let agent = &mut self.agent;
        match news {
            News::Lost(why) => {
                let why = format!("controller: {why}; the last schedules stay in force");
                warn!("{why}");
                agent.controller_lost = Some(why);
            }
            News::Found(url) => {
                info!(url, "controller {url} answers again");
                agent.controller_lost = None;
            }
            News::Schedules(url, schedules) => {
                agent.controller_lost = None;
                let followed = Followed::new(schedules, &agent.config.peers);
                if followed == agent.learnt.followed {
                    return;
                }
                agent.learnt.followed = followed;
                let (revision, n) = (agent.learnt.followed.revision, agent.learnt.followed.len());
                info!(url, revision, peers = n, "controller {url}: schedules of revision {revision} for {n} peers");
                if let Err(e) = agent.learnt.followed.save(&agent.config.socket) {
                    error!("{e}"); // a new agent asks again
                }
                self.look_soon();
            }
        }
    }
}
