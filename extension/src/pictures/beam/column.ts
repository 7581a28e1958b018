import type { BeamFall } from '../../schema';
import { draw } from '../make';
import { shareOf, TreeColumn, TreeNode } from './nodes';

export const ROW = 24;
const GAP = 22;
/** Distance of the pruned candidates from the beam. */
const FOOT = 6;
const TOP = 5;
const SKIP = 26;
/** Room for the scissors before the first column. */
const LEFT = 18;
const [LEAST, MOST] = [26, 96];
const [LETTER, WIDE] = [7, 12];

/** Where a column is. */
export interface Place {
  x: number;
  width: number;
}

/** What decides how columns are drawn. */
export interface Shown {
  places: Place[];
  beam: number;
  isVisible: (node: TreeNode) => boolean;
  /** The chosen node and its family; null if none is chosen. */
  family: Set<TreeNode> | null;
  chosen: TreeNode | null;
  matches: Set<TreeNode>;
  fall: BeamFall | null;
}

/** The places of the columns from left to right; they do not depend on which candidates are shown. */
export function placed(columns: TreeColumn[]): Place[] {
  let x = LEFT;
  return columns.map(({ nodes, skipped }) => {
    const longest = nodes.reduce((most, node) => Math.max(most, widthOf(written(node)) + 10), 0);
    const place = { x: x + (skipped > 0 ? SKIP : 0), width: Math.ceil(Math.min(MOST, Math.max(LEAST, longest))) };
    x = place.x + place.width + GAP;
    return place;
  });
}

/** How many rows there are, with those of the pruned candidates that are shown. */
export function rowsOf(columns: TreeColumn[], beam: number, open: Set<number>): number {
  const rows = [...open].flatMap(at => columns[at].nodes.map(({ row }) => row + 1));
  return rows.reduce((most, row) => Math.max(most, row), beam);
}

export function topOf(row: number, beam: number): number {
  return TOP + row * ROW + (row >= beam ? FOOT : 0);
}

/** The box of a node, with a margin around it. */
export function boxOf({ x, width }: Place, top: number, margin = 0): { [name: string]: number } {
  return { x: x - margin, y: top - margin, width: width + 2 * margin, height: ROW - 4 + 2 * margin };
}

/** The nodes of a step as drawn, and the lines to their parents. */
export class DrawnColumn {
  constructor(column: TreeColumn, shown: Shown) {
    const nodes = column.nodes.filter(shown.isVisible);
    const place = shown.places[column.at];
    const lines = nodes.flatMap(node => [line(node, node.parent, shown), line(node, node.joined, shown, true)]);
    this._lines = lines.filter(line => line !== null);
    this._boxes = nodes.map(node => ({ node, element: box(node, column, shown) }));
    const skip = draw('text', { x: place.x - SKIP / 2 - GAP / 2, y: TOP + 15, class: 'rfnb-Tree-skip' }, '⋯');
    this.element = draw(
      'g',
      { class: 'rfnb-Tree-column' },
      ...this._lines.map(({ element }) => element),
      column.skipped > 0 ? skip : null,
      ...this._boxes.map(({ element }) => element),
      column.step === shown.fall?.step ? scissors(nodes, place, shown.fall, shown.beam) : null
    );
    this.mark(shown);
  }

  readonly element: SVGGElement;

  /** Marks the chosen node and its family, and the matches of the search. */
  mark({ family, chosen, matches }: Shown): void {
    for (const { element, ends } of this._lines) {
      setData(element, 'family', family && String(ends.every(node => family.has(node))));
    }
    for (const { element, node } of this._boxes) {
      setData(element, 'family', family && String(family.has(node)));
      setData(element, 'chosen', node === chosen ? '' : null);
      setData(element, 'match', matches.has(node) ? '' : null);
    }
  }

  private _lines: { element: SVGPathElement; ends: TreeNode[] }[];
  private _boxes: { element: SVGGElement; node: TreeNode }[];
}

function setData({ dataset }: SVGElement, name: string, value: string | null): void {
  if (value === null) {
    delete dataset[name];
  } else {
    dataset[name] = value;
  }
}

function line(
  node: TreeNode,
  from: TreeNode | null,
  { places, beam }: Shown,
  isJoined = false
): { element: SVGPathElement; ends: TreeNode[] } | null {
  if (!from) {
    return null;
  }
  const [start, end] = [places[from.at], places[node.at]];
  const [x, u] = [start.x + start.width, end.x];
  const [y, v] = [from, node].map(({ row }) => topOf(row, beam) + ROW / 2 - 2);
  const middle = (x + u) / 2;
  const isBest = node.best && from.best && !isJoined;
  const kind = isJoined ? 'joined' : isBest ? 'best' : node.reference && from.reference ? 'reference' : node.state;
  const d = y === v ? `M${x},${y}H${u}` : `M${x},${y}C${middle},${y} ${middle},${v} ${u},${v}`;
  return { element: draw('path', { class: 'rfnb-Tree-line', 'data-kind': kind, d }), ends: [node, from] };
}

function box(node: TreeNode, column: TreeColumn, { places, beam }: Shown): SVGGElement {
  const place = places[node.at];
  const top = topOf(node.row, beam);
  const rect = draw('rect', { class: 'rfnb-Tree-box', ...boxOf(place, top), rx: 3 });
  rect.style.setProperty('--rfnb-share', `${Math.round(4 + shareOf(node, column) * 38)}%`);
  return draw(
    'g',
    {
      class: 'rfnb-Tree-node',
      'data-node': `${node.at}:${node.row}`,
      'data-state': node.state,
      'data-best': node.best
    },
    node.reference ? draw('rect', { class: 'rfnb-Tree-reference', ...boxOf(place, top, 3), rx: 5 }) : null,
    rect,
    draw('text', { x: place.x + place.width / 2, y: top + 14 }, fitted(written(node), place.width - 6))
  );
}

/** ✂ where the reference fell out, and a frame around its candidate if that is drawn. */
function scissors(nodes: TreeNode[], place: Place, fall: BeamFall, beam: number): SVGElement {
  const node = nodes.find(({ row }) => row === fall.row);
  const top = topOf(node?.row ?? beam - 1, beam);
  const frame = { class: 'rfnb-Tree-reference', 'data-fallen': true, ...boxOf(place, top, 3), rx: 5 };
  const sign = draw('text', { x: place.x - 11, y: top + 15, class: 'rfnb-Tree-fall' }, '✂');
  return draw('g', {}, draw('title', {}, fall.words), sign, node ? draw('rect', frame) : null);
}

/** The text in a node: a copy of a hypothesis that had ended is a dot. */
export function written({ state, label, ends }: TreeNode): string {
  return (state === 'copy' ? '·' : label || '∅') + (ends ? ' ▣' : '');
}

/** The text without its middle, if that is too wide. */
function fitted(text: string, room: number): string {
  const letters = [...text];
  for (let cut = letters.length; cut > 2; cut--) {
    const [head, tail] = [Math.ceil(cut / 2), Math.floor(cut / 2)];
    const shorter =
      cut === letters.length ? text : `${letters.slice(0, head - 1).join('')}…${letters.slice(-tail).join('')}`;
    if (widthOf(shorter) <= room) {
      return shorter;
    }
  }
  return letters.length > 3 ? `${letters[0]}…` : text;
}

function widthOf(text: string): number {
  return [...text.slice(0, 64)].reduce((sum, letter) => sum + (letter > '\u2e7f' ? WIDE : LETTER), 0);
}
