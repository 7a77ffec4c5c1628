//! What there is to choose from.

use dahl_runtime::array::Dtype;
use dahl_runtime::codelet::relation::TileSize;
use dahl_runtime::graph::CutOptions;

/// The most samples of a tile that is tried.
const MAX_TILE: usize = 256;

/// Ways to cut a step on a batch of this size, the heuristic one first, each once: tiles of a multiple of the
/// lanes, and several sizes of groups that add into one partial gradient. Their number does not depend on the
/// number of workers.
pub fn candidates(batch: usize, dtype: Dtype) -> Vec<CutOptions> {
    let heuristic = dahl_op::default_cut();
    let lanes = 64 / dtype.bytes();
    let mut cuts = vec![heuristic.clone()];
    let tiles = heuristic.tilings[0].iter().map(|(_, tile)| tile.cut(batch)).next().unwrap_or_default();
    for tile in (0..).map(|doublings| lanes << doublings).take_while(|&tile| tile <= MAX_TILE) {
        let n_tiles = batch.div_ceil(tile).max(1);
        // One group for everything would leave nothing to do at the same time.
        let groups = (0..).map(|doublings| 1 << doublings);
        for group in groups.take_while(|&group| group == 1 || n_tiles.div_ceil(group) > 1) {
            let mut cut = heuristic.clone();
            cut.tilings[0] = vec![("n".into(), TileSize::Size(tile))];
            cut.tiles_per_group = group;
            // The heuristic's under another name is no choice.
            if group != heuristic.tiles_per_group || TileSize::Size(tile).cut(batch) != tiles {
                cuts.push(cut);
            }
        }
        // A tile that holds the batch is as good as a larger one.
        if n_tiles == 1 {
            break;
        }
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(batch: usize, dtype: Dtype) -> Vec<String> {
        let name = |cut: &CutOptions| format!("{} {}", cut.tiles(), cut.tiles_per_group);
        candidates(batch, dtype).iter().map(name).collect()
    }

    #[test]
    fn small_batches_leave_little_to_choose_and_large_ones_more() {
        let i = "/i=4096max";
        assert_eq!(names(1, Dtype::F32), [format!("n=16to64{i} 1")]);
        assert_eq!(names(16, Dtype::F32), [format!("n=16to64{i} 1")]);
        assert!(names(1024, Dtype::F32).contains(&format!("n=16{i} 1")));
        assert!(!names(1024, Dtype::F32).contains(&format!("n=64{i} 1")));
        let of_64 =
            ["n=16to64{i} 1", "n=16{i} 2", "n=32{i} 1", "n=64{i} 1"].map(|name| name.replace("{i}", i));
        assert_eq!(names(64, Dtype::F32), of_64);
        assert!(names(64, Dtype::F64).contains(&format!("n=8{i} 4")));
        let many = names(1 << 16, Dtype::F32);
        assert!(many.len() > 20 && many.len() < 100, "{}", many.len());
    }
}
