//! What a scheme combines although one part costs another (docs/united.md).

use super::SchemeTable;
use edge::balance::ECMP;

impl SchemeTable {
    /// A sentence for each pair of those that were measured; `name` is the scheme's.
    pub(super) fn cautions(&self, name: &str) -> Vec<String> {
        let (_, scheme) = self.balance.scheme(&ECMP);
        let beside = format!("`balance = {:?}`", scheme.name);
        let shares = self.rest.tenants.is_some();
        let balance = scheme.beside_shares.filter(|_| shares).map(|cost| {
            format!("{name}: `tenants` beside {beside} can {cost}: guests' rates fall with every mark (docs/united.md)")
        });
        let congestion = self.rest.congestion.as_ref().filter(|_| shares).map(|_| {
            format!(
                "{name}: `congestion` beside `tenants` can halve the fairness between guests of different hosts (docs/united.md)"
            )
        });
        let windows = scheme
            .beside_congestion
            .filter(|_| self.rest.congestion.is_some())
            .map(|cost| format!("{name}: `congestion` beside {beside} can {cost} (docs/united.md)"));
        let resends = scheme
            .beside_resends
            .filter(|_| self.rest.fastlane.is_some())
            .map(|cost| format!("{name}: `fastlane` beside {beside} can {cost} (docs/united.md)"));
        balance.into_iter().chain(congestion).chain(windows).chain(resends).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_go_with_shares_has_a_caution() {
        let said = |keys: &str| toml::from_str::<SchemeTable>(keys).unwrap().cautions("s");
        for balance in ["flowcell", "clove", "clove-int"] {
            let said = said(&format!("balance = \"{balance}\"\ntenants = {{}}"));
            assert!(
                said.len() == 1 && said[0].starts_with(&format!("s: `tenants` beside `balance = \"{balance}\"`")),
                "{said:?}"
            );
        }
        for keys in [
            "tenants = {}",
            "balance = \"clove\"",
            "balance = \"flowlet\"\ntenants = {}",
            "balance = \"clove-int\"\ncongestion = {}",
        ] {
            assert!(said(keys).is_empty(), "{keys}");
        }
        let both = said("balance = \"clove\"\ntenants = {}\ncongestion = {}");
        assert!(both.len() == 3 && both[1].starts_with("s: `congestion` beside `tenants`"), "{both:?}");
    }

    #[test]
    fn windows_beside_balancers_that_lose_by_them_have_a_caution() {
        let said = |keys: &str| toml::from_str::<SchemeTable>(keys).unwrap().cautions("s");
        for balance in ["flowcell", "clove"] {
            let said = said(&format!("balance = \"{balance}\"\ncongestion = {{}}"));
            assert!(
                said.len() == 1 && said[0].starts_with(&format!("s: `congestion` beside `balance = \"{balance}\"`")),
                "{said:?}"
            );
        }
        for balance in ["ecmp", "random-path", "flowlet"] {
            assert!(said(&format!("balance = \"{balance}\"\ncongestion = {{}}")).is_empty(), "{balance}");
        }
    }

    #[test]
    fn resends_beside_clove_have_a_caution() {
        let said = |keys: &str| toml::from_str::<SchemeTable>(keys).unwrap().cautions("s");
        let clove = said("balance = \"clove\"\nfastlane = {}");
        assert!(clove.len() == 1 && clove[0].starts_with("s: `fastlane` beside `balance = \"clove\"`"), "{clove:?}");
        assert!(said("balance = \"flowcell\"\nfastlane = {}").is_empty());
        assert_eq!(said("balance = \"clove\"\nfastlane = {}\ntenants = {}\ncongestion = {}").len(), 4);
    }
}
