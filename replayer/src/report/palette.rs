//! Colours: one for each class of traffic, the same in every report, told apart by people who are colour-blind.
//!
//! Families take the hues of Okabe and Ito (2008, "Color Universal Design"); members of a family differ in lightness.
//! Colours are CSS variables, so that one picture serves light and dark pages.

use std::fmt::Write;

use traces::origin::Class;

use super::lanes::Activity;

impl Activity {
    /// The name of the CSS class that paints with its colour.
    pub(super) const fn css_class(self) -> &'static str {
        match self {
            Self::Compute => "h-compute",
            Self::Class(class) => hue(class).0,
        }
    }
}

/// CSS rules that set `--h` for every hue, for light pages and for dark ones.
pub(super) fn css() -> String {
    let hues = || Class::ALL.iter().map(|class| hue(*class)).chain([("h-compute", "#c3cad3", "#3d4753")]);
    let mut text = String::new();
    for (name, light, _) in hues() {
        let _ = write!(text, ".{name}{{--h:{light}}}");
    }
    text.push_str("@media (prefers-color-scheme:dark){");
    for (name, _, dark) in hues() {
        let _ = write!(text, ".{name}{{--h:{dark}}}");
    }
    text.push('}');
    text
}

/// CSS class, colour on a light page, colour on a dark page.
const fn hue(class: Class) -> (&'static str, &'static str, &'static str) {
    match class {
        Class::DpGradients => ("h-dp", "#0072b2", "#3d9bdb"),
        Class::DpReplicaGradients => ("h-dpr", "#4c8fb8", "#7cb8dd"),
        Class::ZeroAllGather => ("h-zero", "#56b4e9", "#8fd0f5"),
        Class::TpForward => ("h-tpf", "#e69f00", "#f0b429"),
        Class::TpBackward => ("h-tpb", "#a86f00", "#b98514"),
        Class::TpEmbedding => ("h-tpe", "#f2c14e", "#f7d98b"),
        Class::TpHead => ("h-tph", "#7d5200", "#8f6a1d"),
        Class::TpCrossEntropy => ("h-tpc", "#f7d98b", "#fbe8b8"),
        Class::TpNormGradients => ("h-tpn", "#5c3d00", "#70541a"),
        Class::PpForward => ("h-ppf", "#009e73", "#22b88c"),
        Class::PpBackward => ("h-ppb", "#d55e00", "#ec7a24"),
        Class::TiedEmbedding => ("h-tied", "#cc79a7", "#dd93bb"),
        Class::CpForward => ("h-cpf", "#b3a600", "#f0e442"),
        Class::CpBackward => ("h-cpb", "#7a7100", "#b8ad1c"),
        Class::EpDispatch => ("h-epd", "#7a5bd0", "#9b82e3"),
        Class::EpCombine => ("h-epc", "#a992e6", "#c3b3f2"),
        Class::EpMetadata => ("h-epm", "#d3c7f4", "#e4dcfa"),
        Class::ExpertGradients => ("h-exg", "#4a2d9c", "#6d51c4"),
        Class::ExpertAllGather => ("h-exa", "#8f6fe0", "#a78ceb"),
        Class::GradNorm => ("h-norm", "#5f6b76", "#93a0ad"),
        Class::Loss => ("h-loss", "#8b96a1", "#b4bec8"),
        Class::BatchBroadcast => ("h-batch", "#a3734f", "#c4946e"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_class_has_a_colour_of_its_own() {
        for part in [|class| hue(class).0, |class| hue(class).1, |class| hue(class).2] {
            let part: fn(Class) -> &'static str = part;
            let all: BTreeSet<_> = Class::ALL.iter().map(|class| part(*class)).collect();
            assert_eq!(all.len(), Class::ALL.len());
        }
        assert!(css().contains(".h-dp{--h:#0072b2}"));
    }
}
