//! Whose container a limit is: the pod, as Kubernetes names it.

use serde::{Deserialize, Serialize};

/// Longest name of a pod, a DNS subdomain, and of a namespace, a DNS label; bytes.
const MAX_POD: usize = 253;
const MAX_NAMESPACE: usize = 63;

/// Who asks may not know it, or only part of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

impl Pod {
    /// Without what is no name of Kubernetes.
    pub fn checked(pod: Option<String>, namespace: Option<String>) -> Pod {
        Pod {
            pod: pod.filter(|name| is_name(name, MAX_POD, ".-")),
            namespace: namespace.filter(|name| is_name(name, MAX_NAMESPACE, "-")),
        }
    }

    pub fn is_valid(&self) -> bool {
        *self == Pod::checked(self.pod.clone(), self.namespace.clone())
    }

    /// `namespace/pod`, or what is known of it; empty: nothing is.
    pub fn label(&self) -> String {
        match (&self.namespace, &self.pod) {
            (Some(namespace), Some(pod)) => format!("{namespace}/{pod}"),
            (Some(namespace), None) => format!("{namespace}/"),
            (None, pod) => pod.clone().unwrap_or_default(),
        }
    }
}

/// Small letters and digits, and within them `others`.
fn is_name(text: &str, max: usize, others: &str) -> bool {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=max).contains(&text.len())
        && text.chars().all(|c| plain(c) || others.contains(c))
        && text.starts_with(plain)
        && text.ends_with(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_kubernetes_count() {
        for (name, pod, namespace) in [
            ("web", true, true),
            ("web-7d4.x", true, false),
            ("0", true, true),
            ("", false, false),
            ("-web", false, false),
            ("web-", false, false),
            ("Web", false, false),
            ("a/b", false, false),
            ("a\"b", false, false),
            ("a\nb", false, false),
            ("ä", false, false),
        ] {
            let found = Pod::checked(Some(name.into()), Some(name.into()));
            assert_eq!((found.pod.is_some(), found.namespace.is_some()), (pod, namespace), "{name:?}");
            assert!(found.is_valid());
        }
        for (len, pod, namespace) in [(63, true, true), (64, true, false), (253, true, false), (254, false, false)] {
            let found = Pod::checked(Some("a".repeat(len)), Some("a".repeat(len)));
            assert_eq!((found.pod.is_some(), found.namespace.is_some()), (pod, namespace), "{len}");
        }
        assert!(!Pod { pod: Some("a b".into()), namespace: None }.is_valid());
    }

    #[test]
    fn labels_say_what_is_known() {
        let label = |namespace: Option<&str>, pod: Option<&str>| {
            Pod { namespace: namespace.map(str::to_owned), pod: pod.map(str::to_owned) }.label()
        };
        assert_eq!(label(Some("shop"), Some("web-1")), "shop/web-1");
        assert_eq!((label(Some("shop"), None), label(None, Some("web-1"))), ("shop/".into(), "web-1".into()));
        assert_eq!(label(None, None), "");
    }
}
