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
  const { sequence, since, columns } = beam;
  const known = tree?.sequence === sequence ? tree.columns : [];
  if (known.length < since) {
    return tree; // a part is missing; the next step will bring all of it
  }
  return { sequence, columns: [...known.slice(0, since), ...columns, ...known.slice(since + columns.length)] };
}

/** The hypothesis above (-1) or below (+1) one at a place, by rank; null for all of them, which are above the best. */
export function beside({ rows, step }: BeamAt, place: number | null, way: 1 | -1): NodeAt | null {
  const at = rows.findIndex(row => row.place === place);
  const next = Math.max(-1, Math.min(at + way, rows.length - 1));
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
