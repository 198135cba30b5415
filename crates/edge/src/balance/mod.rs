//! Load balancing: the schemes that spread outgoing segments over paths, by name, and in the form in which
//! `datapath/balance.h` runs them.

mod table;

#[cfg(any(test, feature = "toy"))]
pub use table::TOY;
pub use table::{AGENTS, CLOVE, CLOVE_INT, ECMP, FLOWCELL, FLOWLET, RANDOM_PATH, SCHEMES};

use std::fmt;
use std::str::FromStr;
use units::{Bytes, Time};

/// Most parameters of one scheme: the words of the union in `struct sv_balance_conf`.
pub const MAX_PARAMETERS: usize = 8;

/// One scheme.
#[derive(Debug)]
pub struct Scheme {
    pub name: &'static str,
    /// Other names that mean the same.
    pub aliases: &'static [&'static str],
    /// What it does, in one line.
    pub about: &'static str,
    /// Does it write labels? Without, a schedule of them has no meaning.
    pub labels: bool,
    /// The state of each path to a destination that it keeps whatever its parameters are; `None`: none. See [`Balance::keeps`].
    pub keeps: Option<Keeps>,
    /// What shares among tenants ([`crate::hygenicc`]) beside it can do, as measured (docs/united.md); `None`: no harm that is known.
    pub beside_shares: Option<&'static str>,
    /// The same of virtual congestion control ([`crate::vcc`]) beside it.
    pub beside_congestion: Option<&'static str>,
    /// The same of resends of what was dropped ([`crate::fastlane`]) beside it.
    pub beside_resends: Option<&'static str>,
    /// At most [`MAX_PARAMETERS`].
    pub parameters: &'static [Parameter],
    /// `SV_BALANCE_*`
    number: u8,
}

/// What a scheme wants to know of the paths to a destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keeps {
    /// Its segments ask switches for the utilisation of links (in-band telemetry).
    pub utilisation: bool,
    /// Receivers tell of the paths on which packets were marked.
    pub marks: bool,
    /// How often the tick hook of `datapath/balance.h` runs; `None`: never.
    pub tick: Option<Time>,
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Scheme) -> bool {
        self.number == other.number
    }
}
impl Eq for Scheme {}

impl Scheme {
    /// By name or alias.
    pub fn find(word: &str) -> Option<&'static Scheme> {
        SCHEMES.into_iter().find(|scheme| scheme.names().any(|name| name == word))
    }

    /// Its name, then its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Those that the kernel edge has.
    pub fn of_kernel() -> impl Iterator<Item = &'static Scheme> {
        SCHEMES.into_iter().filter(|scheme| scheme.is_of_kernel())
    }

    /// Can the kernel edge run it? No switch tells it of the utilisation of links, and it runs no ticks.
    pub fn is_of_kernel(&self) -> bool {
        !self.keeps.is_some_and(|keeps| keeps.utilisation || keeps.tick.is_some())
    }
}

/// What can be set of a scheme. Schemes may share one; no two have a name in common.
#[derive(Debug, PartialEq, Eq)]
pub struct Parameter {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    /// What it is, in one line.
    pub about: &'static str,
    pub default: Quantity,
    pub least: Quantity,
    pub most: Quantity,
    /// Where the configuration in effect has it.
    pub shown: Shown,
    /// What it changes besides its scheme's algorithm, where it is not the default.
    pub when_set: WhenSet,
    /// Where it is not the default, it exceeds the parameter of that name.
    pub above: Option<&'static str>,
}

/// What a parameter that is not the default changes of what its scheme keeps of paths.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WhenSet {
    Nothing,
    /// A scheme that keeps no states of paths otherwise has them.
    KeepsPaths,
    /// Receivers need not tell of marks.
    NoMarks,
}

/// Which schemes' configurations in effect have a parameter that no file gives. Results are filed under the configuration in effect:
/// with one word more it is another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shown {
    Always,
    /// Of schemes that have it.
    WithScheme,
    /// Where it is not the default: options that came later, which are off.
    WhenSet,
}

impl Parameter {
    /// Of all schemes, in the order of docs, each once.
    pub fn all() -> impl Iterator<Item = &'static Parameter> {
        let of = |n: usize| SCHEMES[n].parameters;
        let earlier = move |n: usize, parameter| (0..n).any(|n| of(n).contains(parameter));
        (0..SCHEMES.len()).flat_map(move |n| of(n).iter().filter(move |parameter| !earlier(n, *parameter)))
    }

    /// For people: least and most, or the words that there are.
    pub fn range(&self) -> String {
        match self.default {
            Quantity::Word(word) => word.of.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", "),
            _ => format!("{} to {}", self.least.shown(), self.most.shown()),
        }
    }

    /// By name or alias.
    pub fn find(key: &str) -> Option<&'static Parameter> {
        Parameter::all().find(|parameter| parameter.names().any(|name| name == key))
    }

    /// Its name, then its aliases.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }

    /// Is it in range? A quantity of another unit is not.
    pub fn allows(&self, value: Quantity) -> bool {
        self.least.same_unit(value) && self.least.word() <= value.word() && value.word() <= self.most.word()
    }

    /// Reads a value with its unit, in range or not.
    ///
    /// # Errors
    /// Text that is no quantity of its unit.
    pub fn parse(&self, text: &str) -> Result<Quantity, String> {
        let read = match self.default {
            Quantity::Bytes(_) => text.parse().map(Quantity::Bytes),
            Quantity::Time(_) => text.parse().map(Quantity::Time),
            Quantity::Word(word) => {
                let found = word.called(text).map(Quantity::Word);
                return found.ok_or_else(|| format!("{} is no word of {}: give {}", text, self.name, self.range()));
            }
        };
        read.map_err(|error: units::ParseError| error.to_string())
    }

    /// So many bytes or nanoseconds, or the word with that number, or the nearest that it allows.
    pub fn nearest(&self, units: u64) -> Quantity {
        let units = units.clamp(self.least.word().into(), self.most.word().into());
        match self.default {
            Quantity::Bytes(_) => Quantity::Bytes(Bytes(units)),
            Quantity::Time(_) => Quantity::Time(Time::from_ns(units)),
            Quantity::Word(word) => Quantity::Word(Word { at: units as u32, ..word }),
        }
    }
}

/// A parameter's value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    Bytes(Bytes),
    Time(Time),
    /// One of several words.
    Word(Word),
}

/// A word, as its place in a list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word {
    pub of: &'static [&'static str],
    pub at: u32,
}

impl Word {
    /// Another word of the same list.
    pub fn called(self, text: &str) -> Option<Word> {
        let at = self.of.iter().position(|word| *word == text)?;
        Some(Word { at: at as u32, ..self })
    }
}

impl Quantity {
    fn same_unit(self, other: Quantity) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other)
    }

    /// As C has it: bytes, ns or a number, at most what 32 bits hold.
    fn word(self) -> u32 {
        let units = match self {
            Quantity::Word(word) => word.at.into(),
            Quantity::Bytes(bytes) => bytes.get(),
            Quantity::Time(time) => time.as_ns(),
        };
        u32::try_from(units).unwrap_or(u32::MAX)
    }
}

impl Quantity {
    /// As people write it. A time of zero prints as picoseconds, by which files of results know it.
    pub fn shown(self) -> String {
        match self {
            Quantity::Time(Time::ZERO) => "0s".to_owned(),
            other => other.to_string(),
        }
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Quantity::Bytes(bytes) => bytes.fmt(f),
            Quantity::Time(time) => time.fmt(f),
            Quantity::Word(word) => f.write_str(word.of.get(word.at as usize).unwrap_or(&"?")),
        }
    }
}

impl fmt::Debug for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A scheme with values for its parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Balance {
    scheme: &'static Scheme,
    /// In the order of its parameters.
    values: [Quantity; MAX_PARAMETERS],
}

impl Balance {
    /// With the values that `of` gives, or else the defaults.
    pub fn new(scheme: &'static Scheme, of: impl Fn(&'static Parameter) -> Option<Quantity>) -> Balance {
        let mut values = [Quantity::Bytes(Bytes::ZERO); MAX_PARAMETERS];
        for (value, parameter) in values.iter_mut().zip(scheme.parameters) {
            *value = of(parameter).unwrap_or(parameter.default);
        }
        Balance { scheme, values }
    }

    pub fn ecmp() -> Balance {
        Balance::new(&ECMP, |_| None)
    }

    pub fn random_path() -> Balance {
        Balance::new(&RANDOM_PATH, |_| None)
    }

    pub fn flowcell(threshold: Bytes) -> Balance {
        Balance::new(&FLOWCELL, |_| Some(Quantity::Bytes(threshold)))
    }

    pub fn flowlet(gap: Time) -> Balance {
        Balance::new(&FLOWLET, |parameter| (parameter.name == "flowlet_gap").then_some(Quantity::Time(gap)))
    }

    pub fn scheme(&self) -> &'static Scheme {
        self.scheme
    }

    /// The state of each path to a destination that it keeps, with these values; `None`: none.
    pub fn keeps(&self) -> Option<Keeps> {
        let by_parameter = Keeps { utilisation: false, marks: false, tick: None };
        let keeps = self.scheme.keeps.or(self.keeps_by().map(|_| by_parameter))?;
        Some(Keeps { marks: keeps.marks && self.first_set(WhenSet::NoMarks).is_none(), ..keeps })
    }

    /// The parameter without which it would keep no states of paths.
    pub fn keeps_by(&self) -> Option<&'static Parameter> {
        self.first_set(WhenSet::KeepsPaths).filter(|_| self.scheme.keeps.is_none())
    }

    /// The first parameter of that effect that is not the default.
    fn first_set(&self, effect: WhenSet) -> Option<&'static Parameter> {
        self.values().find(|(known, value)| known.when_set == effect && *value != known.default).map(|(known, _)| known)
    }

    /// Values that contradict one another: the parameter, what is wrong with it, and the remedy.
    pub fn contradiction(&self) -> Option<(&'static Parameter, String, String)> {
        self.values().filter(|(known, value)| *value != known.default).find_map(|(known, value)| {
            let (least, floor) = self.values().find(|(other, _)| Some(other.name) == known.above)?;
            let problem = format!("{value} does not exceed {}, {floor}", least.name);
            let remedy = format!("give more than {}, {floor}, or {} to switch it off", least.name, known.default);
            (value.word() <= floor.word()).then_some((known, problem, remedy))
        })
    }

    /// Its parameters and their values.
    pub fn values(&self) -> impl Iterator<Item = (&'static Parameter, Quantity)> + '_ {
        self.scheme.parameters.iter().zip(self.values)
    }

    /// For the data path. `tcp_only`: flows of other protocols keep the label that their hash picks.
    pub fn conf(&self, tcp_only: bool) -> Conf {
        let mut conf = Conf { scheme: self.scheme.number, ..Conf::default() };
        if tcp_only && self.scheme.labels {
            conf.flags = TCP_ONLY;
        }
        for (word, (_, value)) in conf.words.iter_mut().zip(self.values()) {
            *word = value.word();
        }
        conf
    }
}

impl Default for Balance {
    /// ECMP.
    fn default() -> Balance {
        Balance::ecmp()
    }
}

impl fmt::Display for Balance {
    /// As it is read.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.scheme.name)?;
        let shown = |(p, value): &(&Parameter, Quantity)| p.shown != Shown::WhenSet || *value != p.default;
        self.values().filter(shown).try_for_each(|(parameter, value)| write!(f, ",{}={value}", parameter.name))
    }
}

impl FromStr for Balance {
    type Err = String;

    /// `flowcell` or `flowcell,threshold=16KB`.
    fn from_str(text: &str) -> Result<Balance, String> {
        let mut words = text.split(',');
        let word = words.next().unwrap_or_default();
        let names = || SCHEMES.map(|scheme| scheme.name).join(", ");
        let scheme = Scheme::find(word).ok_or_else(|| format!("there is no scheme {word:?}: give {}", names()))?;
        let mut balance = Balance::new(scheme, |_| None);
        for word in words {
            let (key, text) = word.split_once('=').ok_or_else(|| format!("{word:?} has no value: write key=value"))?;
            let place = scheme.parameters.iter().position(|parameter| parameter.names().any(|name| name == key));
            let place = place.ok_or_else(|| match scheme.parameters {
                [] => format!("{} has no parameters", scheme.name),
                all => format!(
                    "{key:?} is none of its parameters: give {}",
                    all.iter().map(|p| p.name).collect::<Vec<_>>().join(", ")
                ),
            })?;
            let parameter = &scheme.parameters[place];
            let value = parameter.parse(text)?;
            if !parameter.allows(value) {
                return Err(format!("{key} {} is out of range: give {}", value.shown(), parameter.range()));
            }
            balance.values[place] = value;
        }
        if let Some((parameter, problem, remedy)) = balance.contradiction() {
            return Err(format!("{} {problem}: {remedy}", parameter.name));
        }
        Ok(balance)
    }
}

impl fmt::Debug for Balance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Balance({self})")
    }
}

/// `SV_BALANCE_TCP_ONLY`
const TCP_ONLY: u8 = 1;

/// `struct sv_balance_conf`
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Conf {
    scheme: u8,
    flags: u8,
    pad: [u8; 6],
    /// Of the parameters, in their order.
    words: [u32; MAX_PARAMETERS],
}
const _: () = assert!(size_of::<Conf>() == 40);

impl Conf {
    /// Is it the scheme of the other, whatever their parameters are?
    pub fn is_scheme_of(&self, other: &Conf) -> bool {
        self.scheme == other.scheme
    }
}

/// `struct sv_balance`: a flow's state of its choice of path.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct State {
    /// Number of the current flowcell or flowlet.
    pub cell: u32,
    pub index: u16,
    pub label: u16,
    pub started: u8,
    pub scheme: u8,
    /// 1: the guest has sent packets that are ECN-capable, where the scheme asks for that.
    pub ect: u8,
    pub pad: u8,
    /// The scheme's own.
    pub own: [u32; 1],
}
const _: () = assert!(size_of::<State>() == 16);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_word_means_one_thing() {
        let words: Vec<&str> = SCHEMES.into_iter().flat_map(Scheme::names).collect();
        let keys: Vec<&str> = Parameter::all().flat_map(Parameter::names).collect();
        for all in [&words, &keys] {
            assert_eq!(all.iter().collect::<BTreeSet<_>>().len(), all.len(), "{all:?}");
        }
        let numbers: BTreeSet<u8> = SCHEMES.iter().map(|scheme| scheme.number).collect();
        assert_eq!(numbers.len(), SCHEMES.len());
        assert_eq!(Scheme::find("hash"), Some(&ECMP));
        assert_eq!(Scheme::find("Flowcell"), None);
        assert_eq!(Parameter::find("flowcell").map(|parameter| parameter.name), Some("threshold"));
    }

    #[test]
    fn the_kernel_edge_refuses_utilisation_and_ticks_each_for_itself() {
        let keeps = |utilisation, tick| Scheme { keeps: Some(Keeps { utilisation, marks: true, tick }), ..TOY };
        let tick = TOY.keeps.and_then(|keeps| keeps.tick);
        assert!(tick.is_some());
        assert!(!keeps(true, None).is_of_kernel() && !keeps(false, tick).is_of_kernel() && !TOY.is_of_kernel());
        assert!(keeps(false, None).is_of_kernel() && FLOWCELL.is_of_kernel());
    }

    #[test]
    fn every_default_is_in_range_and_c_can_hold_every_value() {
        for scheme in SCHEMES {
            assert!(scheme.parameters.len() <= MAX_PARAMETERS, "{}", scheme.name);
        }
        for (scheme, parameter) in SCHEMES.iter().flat_map(|s| s.parameters.iter().map(move |p| (s, p))) {
            let above = parameter.above.is_none_or(|name| scheme.parameters.iter().any(|other| other.name == name));
            assert!(above, "{} of {}", parameter.name, scheme.name);
        }
        for parameter in Parameter::all() {
            assert!(parameter.allows(parameter.default) && parameter.allows(parameter.least), "{}", parameter.name);
            assert!(parameter.most.word() < u32::MAX, "{}", parameter.name);
            assert_eq!(parameter.nearest(0), parameter.least);
            assert_eq!(parameter.nearest(u64::MAX), parameter.most);
        }
        assert!(!FLOWLET.parameters[0].allows(Quantity::Bytes(Bytes::kib(64))), "bytes are no time");
    }

    #[test]
    fn values_become_words_of_the_data_path() {
        assert_eq!(Balance::default().conf(true), Conf::default());
        let flowcells = Balance::flowcell(Bytes::kib(4)).conf(true);
        assert_eq!((flowcells.flags, flowcells.words), (TCP_ONLY, [4096, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(Balance::flowlet(Time::from_us(3)).conf(false).words, [3000, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Balance::flowlet(Time::from_secs(400)).conf(false).words, [u32::MAX, 0, 0, 0, 0, 0, 0, 0]);
        let random: Balance = "edge-flowlet,flowlet_choice=random".parse().unwrap();
        assert_eq!(random.conf(false).words, [500_000, 2, 0, 0, 0, 0, 0, 0], "SV_FLOWLET_RANDOM");
    }

    #[test]
    fn what_is_written_is_read() {
        for scheme in SCHEMES {
            let value = |p: &Parameter| if p.name == "flowlet_gap" { p.least } else { p.most };
            let balance = Balance::new(scheme, |parameter| Some(value(parameter)));
            assert_eq!(balance.to_string().parse(), Ok(balance));
            assert!(scheme.names().all(|name| name.parse() == Ok(Balance::new(scheme, |_| None))), "{}", scheme.name);
        }
        assert_eq!("flowcell,flowcell=4KiB".parse(), Ok(Balance::flowcell(Bytes::kib(4))));
        assert_eq!(
            Balance::new(&CLOVE, |_| None).to_string(),
            "clove,flowlet_gap=500us,clove_relay=250us,clove_clear=1ms,clove_masks=guests",
            "an option that is off is not shown"
        );
        let flowlets = Balance::flowlet(Time::from_ms(1)).to_string();
        assert_eq!(flowlets, "flowlet,flowlet_gap=1ms,flowlet_choice=round-robin");
        for (wrong, says) in [
            ("", "give ecmp, "),
            ("flowcells", "give ecmp, "),
            ("flowcell,64KB", "write key=value"),
            ("flowcell,gap=1ms", "give threshold"),
            ("ecmp,threshold=1B", "ecmp has no parameters"),
            ("flowcell,threshold=64", "the unit is missing"),
            ("flowlet,flowlet_gap=1us", "give 2us to 4s"),
            ("flowlet,flowlet_choice=rr", "rr is no word of flowlet_choice: give `round-robin`, `hash`, `random`"),
        ] {
            let error = wrong.parse::<Balance>().unwrap_err();
            assert!(error.contains(says), "{wrong}: {error}");
        }
    }
}
