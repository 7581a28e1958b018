import type { BeamAt, BeamStep, NodeAt } from '../schema';

/** The part of the tree of a search that has arrived: its columns up to some step, for one sequence. */
export interface BeamTree {
  sequence: number;
  columns: readonly BeamStep[];
}

/** The tree with the columns of an answer. */
export function grown(tree: BeamTree | null, beam: BeamAt | null | undefined): BeamTree | null {
  if (!beam) {
    return tree;
  }
  const known = tree?.sequence === beam.sequence ? tree.columns : [];
  if (tree?.sequence === beam.sequence && known.length >= beam.since + beam.columns.length) {
    return tree;
  }
  return { sequence: beam.sequence, columns: [...known.slice(0, beam.since), ...beam.columns] };
}

/** The hypothesis above (-1) or below (+1) the chosen one, by rank; null for all of them, which are above the best. */
export function beside({ rows, place, step }: BeamAt, way: 1 | -1): NodeAt | null {
  const at = rows.findIndex(row => row.place === place);
  const next = Math.min(at + way, rows.length - 1);
  return next < 0 ? null : { step, place: rows[next].place };
}

/** The places of a hypothesis and its prefixes, by step. */
export function pathTo(columns: readonly BeamStep[], at: NodeAt): Map<number, number> {
  const path = new Map<number, number>();
  let row: number | null = at.place;
  for (let step = at.step; step >= 0 && row !== null; step--) {
    path.set(step, row);
    const place: number = row;
    const node = columns[step]?.nodes.find(node => node.row === place && node.state !== 'pruned');
    row = node?.parent ?? null;
  }
  return path;
}
