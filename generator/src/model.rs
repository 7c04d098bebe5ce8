//! A model's shape, its parameter tensors, and what it costs to compute.
//!
//! GPT here: tied embedding, biases, learned positions, LayerNorm. Other families come with the plan's reader.

/// The shape of a GPT model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its name in reports.
    pub name: String,
    /// Transformer layers.
    pub layers: u32,
    /// Width of an activation.
    pub hidden: u64,
    /// Attention heads.
    pub heads: u64,
    /// Width of the MLP's inner activation.
    pub ffn: u64,
    /// Rows of the embedding.
    pub vocab: u64,
    /// Rows of the learned positions.
    pub positions: u64,
}

/// How tensor parallelism cuts a parameter tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Every rank of the tensor group holds all of it.
    Whole,
    /// Every rank holds an equal part: columns or rows of a matrix.
    Even,
    /// Rows of the vocabulary, each of so many elements: the first ranks hold one more when they do not divide.
    Rows(u64),
}

/// A parameter tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name, as GPT-2's code has it, without the layer.
    pub name: &'static str,
    /// The layer it belongs to; none for embeddings and the final norm.
    pub layer: Option<u32>,
    /// Its elements.
    pub elements: u64,
    /// How tensor parallelism cuts it.
    pub cut: Cut,
}

impl Model {
    /// A shipped model, by its name in plans.
    #[must_use]
    pub fn preset(name: &str, positions: u64) -> Option<Self> {
        let (_, layers, hidden, heads) = *PRESETS.iter().find(|preset| preset.0 == name)?;
        Some(Self { name: name.to_owned(), layers, hidden, heads, ffn: 4 * hidden, vocab: 50_257, positions })
    }

    /// The names of the shipped models.
    pub fn presets() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|preset| preset.0)
    }

    /// All parameters of the model, each counted once: the head is the embedding.
    ///
    /// For an MLP of 4 h: l (12 h^2 + 13 h) + (V + s) h + 2 h (Megatron-LM, arXiv 2104.04473, eq. 2, and the final norm).
    #[must_use]
    pub fn parameters(&self) -> u64 {
        let layers = (0..self.layers).flat_map(|layer| self.layer(layer));
        self.embedding()
            .into_iter()
            .chain(layers)
            .chain(self.final_norm())
            .map(|tensor| tensor.elements)
            .sum()
    }

    /// The token embedding and the learned positions, in order of registration.
    #[must_use]
    pub fn embedding(&self) -> [Parameter; 2] {
        [self.token_embedding(), self.outside("wpe", self.positions * self.hidden, Cut::Whole)]
    }

    /// The token embedding alone: the last stage of a pipeline holds a copy of it as its head.
    #[must_use]
    pub fn token_embedding(&self) -> Parameter {
        self.outside("wte", self.vocab * self.hidden, Cut::Rows(self.hidden))
    }

    /// The parameters of a layer, in order of registration.
    ///
    /// Column-parallel matrices cut their bias too; row-parallel ones hold theirs whole, as norms are held (Megatron-LM).
    #[must_use]
    pub fn layer(&self, layer: u32) -> [Parameter; 12] {
        let (h, f) = (self.hidden, self.ffn);
        [
            ("ln_1.weight", h, Cut::Whole),
            ("ln_1.bias", h, Cut::Whole),
            ("attn.c_attn.weight", 3 * h * h, Cut::Even),
            ("attn.c_attn.bias", 3 * h, Cut::Even),
            ("attn.c_proj.weight", h * h, Cut::Even),
            ("attn.c_proj.bias", h, Cut::Whole),
            ("ln_2.weight", h, Cut::Whole),
            ("ln_2.bias", h, Cut::Whole),
            ("mlp.c_fc.weight", h * f, Cut::Even),
            ("mlp.c_fc.bias", f, Cut::Even),
            ("mlp.c_proj.weight", f * h, Cut::Even),
            ("mlp.c_proj.bias", h, Cut::Whole),
        ]
        .map(|(name, elements, cut)| Parameter { name, layer: Some(layer), elements, cut })
    }

    /// The norm behind the last layer.
    #[must_use]
    pub fn final_norm(&self) -> [Parameter; 2] {
        ["ln_f.weight", "ln_f.bias"].map(|name| self.outside(name, self.hidden, Cut::Whole))
    }

    /// Floating-point operations of a layer's forward pass over `batch` sequences of `length` tokens.
    ///
    /// 24 B s h^2 + 4 B s^2 h for an MLP of 4 h (arXiv 2104.04473, appendix); the backward pass takes twice that.
    #[must_use]
    pub fn layer_flops(&self, batch: u64, length: u64) -> u128 {
        let [b, s, h, f] = [batch, length, self.hidden, self.ffn].map(u128::from);
        2 * b * s * (4 * h * h + 2 * h * f) + 4 * b * s * s * h
    }

    /// Floating-point operations of the head's forward pass: 2 B s h V (same source); backward takes twice that.
    #[must_use]
    pub fn head_flops(&self, batch: u64, length: u64) -> u128 {
        [2, batch, length, self.hidden, self.vocab].map(u128::from).iter().product()
    }

    fn outside(&self, name: &'static str, elements: u64, cut: Cut) -> Parameter {
        Parameter { name, layer: None, elements, cut }
    }
}

impl Parameter {
    /// What the rank at `place` of a tensor group of `ranks` holds of it.
    #[must_use]
    pub const fn held(&self, place: u64, ranks: u64) -> u64 {
        match self.cut {
            Cut::Whole => self.elements,
            Cut::Even => self.elements / ranks,
            Cut::Rows(row) => {
                let rows = self.elements / row;
                (rows / ranks + if place < rows % ranks { 1 } else { 0 }) * row
            }
        }
    }
}

/// Name, layers, hidden width, heads (Radford et al. 2019, table 2; the released checkpoints).
const PRESETS: [(&str, u32, u64, u64); 4] = [
    ("gpt2", 12, 768, 12),
    ("gpt2-medium", 24, 1024, 16),
    ("gpt2-large", 36, 1280, 20),
    ("gpt2-xl", 48, 1600, 25),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_released_gpt2_models_have_these_parameters() {
        let counts: Vec<_> =
            Model::presets().map(|name| Model::preset(name, 1024).unwrap().parameters()).collect();
        assert_eq!(counts, [124_439_808, 354_823_168, 774_030_080, 1_557_611_200]);
    }

    #[test]
    fn rows_that_do_not_divide_go_to_the_first_ranks() {
        let tensor = Model::preset("gpt2", 1024).unwrap().token_embedding();
        let held: Vec<_> = (0..8).map(|place| tensor.held(place, 8)).collect();
        assert_eq!(held[0], 6283 * 768);
        assert_eq!(held[1], 6282 * 768);
        assert_eq!(held.iter().sum::<u64>(), tensor.elements);
    }

    #[test]
    fn forward_takes_24_b_s_h_squared_and_attention() {
        let model = Model::preset("gpt2", 1024).unwrap();
        assert_eq!(model.layer_flops(1, 1024), 24 * 1024 * 768 * 768 + 4 * 1024 * 1024 * 768);
    }
}
