import type { BeamNode, BeamScripts, Number as Score } from '../../schema';

type State = BeamNode['state'];

const STATES: State[] = ['lives', 'dies', 'copy', 'pruned'];

/** A hypothesis after a step, or a candidate that was pruned there. */
export interface TreeNode {
  /** The position of its column. */
  at: number;
  step: number;
  row: number;
  rank: number;
  label: string;
  /** What its label adds to the text of the hypothesis. */
  adds: string;
  score: Score;
  /** The score of its label by each scorer. */
  parts: Score[];
  state: State;
  ends: boolean;
  best: boolean;
  reference: boolean;
  parent: TreeNode | null;
  /** A second hypothesis that became this one. */
  joined: TreeNode | null;
  /** Those that extend it, or joined with what does. */
  children: TreeNode[];
}

/** The nodes of a step, from top to bottom. */
export interface TreeColumn {
  at: number;
  step: number;
  skipped: number;
  nodes: TreeNode[];
  /** The best and worst score in the beam. */
  high: number;
  low: number;
}

/** The columns of a tree, with their nodes connected. */
export function readTree({ columns, texts }: BeamScripts): TreeColumn[] {
  let before = new Map<number, TreeNode>();
  return columns.map((column, at) => {
    const nodes = column.rows.map((row, i) => {
      const marks = column.marks[i];
      const node: TreeNode = {
        at,
        row,
        step: column.step,
        rank: column.ranks[i],
        label: texts[column.labels[i]] ?? '',
        adds: texts[column.adds[i]] ?? '',
        score: column.scores[i],
        parts: column.parts.map(part => part[i]),
        state: STATES[marks & 3],
        ends: (marks & 4) > 0,
        best: (marks & 8) > 0,
        reference: (marks & 16) > 0,
        parent: before.get(column.parents[i]) ?? null,
        joined: before.get(column.joined?.[i] ?? -1) ?? null,
        children: []
      };
      node.parent?.children.push(node);
      node.joined?.children.push(node);
      return node;
    });
    const kept = nodes.filter(({ state }) => state !== 'pruned');
    before = new Map(kept.map(node => [node.row, node]));
    const scores = kept.map(({ score }) => score).filter(score => typeof score === 'number');
    const [high, low] = [Math.max(...scores), Math.min(...scores)];
    nodes.sort((a, b) => a.row - b.row);
    return { at, step: column.step, skipped: column.skipped, nodes, high, low };
  });
}

/** How good the score of a node is in its step: from 0, the worst, to 1. */
export function shareOf({ score }: TreeNode, { high, low }: TreeColumn): number {
  return typeof score !== 'number' ? 0 : high > low ? (score - low) / (high - low) : 1;
}

/** The node, what it came from, and what came of it. */
export function familyOf(node: TreeNode): Set<TreeNode> {
  const family = new Set<TreeNode>();
  for (const next of [(n: TreeNode) => [n.parent, n.joined], (n: TreeNode) => n.children]) {
    const seen = new Set<TreeNode>();
    const waiting: (TreeNode | null)[] = [node];
    while (waiting.length) {
      const one = waiting.pop();
      if (one && !seen.has(one)) {
        seen.add(one);
        waiting.push(...next(one));
      }
    }
    seen.forEach(one => family.add(one));
  }
  return family;
}

/** The node and its prefixes, the first one first. */
export function pathTo(node: TreeNode): TreeNode[] {
  const path: TreeNode[] = [];
  for (let one: TreeNode | null = node; one; one = one.parent) {
    path.push(one);
  }
  return path.reverse();
}

/** The text of a hypothesis up to a node. */
export function textOf(node: TreeNode, columns: TreeColumn[]): string {
  const parts = pathTo(node).map(({ at, adds }) => (columns[at].skipped > 0 ? ' … ' : '') + adds);
  return parts.join('').trim();
}

/** The sum of a part of the score over all labels of a hypothesis; null if some of them are left out. */
export function sumOf(node: TreeNode, part: number, columns: TreeColumn[]): Score | null {
  const path = pathTo(node);
  if (path.some(({ at }) => columns[at].skipped > 0)) {
    return null;
  }
  const own = path.map(({ parts }) => parts[part]);
  return own.find(score => typeof score === 'string') ?? own.reduce<number>((sum, score) => sum + Number(score), 0);
}

/** The nodes whose labels contain a text. */
export function findLabels(columns: TreeColumn[], text: string): TreeNode[] {
  const wanted = text.trim().toLowerCase();
  const nodes = columns.flatMap(column => column.nodes);
  return wanted ? nodes.filter(({ label }) => label.toLowerCase().includes(wanted)) : [];
}

/** The next node for an arrow key: sideways along the hypothesis, up and down within the step. */
export function neighbour(node: TreeNode, key: string, columns: TreeColumn[], visible: Visible): TreeNode | null {
  const shown = (at: number) => columns[at]?.nodes.filter(visible) ?? [];
  const nearest = (at: number) => shown(at).sort((a, b) => Math.abs(a.row - node.row) - Math.abs(b.row - node.row))[0];
  const own = shown(node.at);
  switch (key) {
    case 'ArrowUp':
      return own[own.indexOf(node) - 1] ?? null;
    case 'ArrowDown':
      return own[own.indexOf(node) + 1] ?? null;
    case 'ArrowLeft':
      return node.parent ?? nearest(node.at - 1) ?? null;
    case 'ArrowRight':
      return node.children.filter(visible).sort(inOrder)[0] ?? nearest(node.at + 1) ?? null;
    case 'Home':
      return shown(0)[0] ?? null;
    case 'End':
      return shown(columns.length - 1)[0] ?? null;
    default:
      return null;
  }
}

/** The way to the best hypothesis first, then what has a place in the beam, each by rank. */
function inOrder(a: TreeNode, b: TreeNode): number {
  const isPruned = ({ state }: TreeNode) => Number(state === 'pruned');
  return Number(b.best) - Number(a.best) || isPruned(a) - isPruned(b) || a.rank - b.rank;
}

type Visible = (node: TreeNode) => boolean;
