import type { AttentionScripts } from '../../schema';
import { draw } from '../make';

const CHARACTER = 6.7;
const CUT = 18;
const EVERY = [1, 2, 5, 10, 20, 25, 50, 100, 200, 500, 1000];

/** The labels of rows and columns: names, seconds, or numbers. */
export class Sides {
  constructor(private _scripts: AttentionScripts) {}

  /** The label of the first entry of each pixel; a pixel stands for `pool` entries. */
  labels(pool: number[], rows: number, cols: number): { rows: string[]; cols: string[] } {
    const { rows: rowNames, cols: colNames, row_seconds, col_seconds } = this._scripts;
    return {
      rows: labelsOf(rows, pool[0], rowNames, row_seconds),
      cols: labelsOf(cols, pool[1], colNames, col_seconds)
    };
  }
}

function labelsOf(count: number, pool: number, names: string[] | null, seconds: number | null): string[] {
  const digits = seconds !== null && seconds * pool < 0.01 ? 3 : 2;
  return Array.from({ length: count }, (_, i) => {
    const entry = i * pool;
    return names ? (names[entry] ?? String(entry)) : seconds ? `${(entry * seconds).toFixed(digits)} s` : String(entry);
  });
}

/** The labels of an axis, and the room that they take. */
export interface Axis {
  room: number;
  drawn: SVGElement[];
}

/** Labels beside the rows, as many as there is room for. */
export function rowLabels(labels: string[], cell: number): Axis {
  const every = thin(cell, 12);
  const kept = labels.map((label, i) => ({ label: cut(label), i })).filter(({ i }) => i % every === 0);
  const longest = Math.max(1, ...kept.map(({ label }) => label.length));
  const drawn = kept.map(({ label, i }) => draw('text', { y: cell * (i + 0.5) + 4, 'text-anchor': 'end' }, label));
  return { room: 10 + longest * CHARACTER, drawn };
}

/** Labels below the columns: horizontal where they fit, else turned. */
export function columnLabels(labels: string[], cell: number): Axis {
  const longest = Math.max(1, ...labels.map(label => cut(label).length)) * CHARACTER;
  const areNumbers = labels.every(label => /^[\d.]+( s)?$/.test(label));
  const areTurned = !areNumbers && longest + 4 > cell;
  const every = thin(cell, areTurned ? 12 : longest + 8);
  const kept = labels.map((label, i) => ({ label: cut(label), x: cell * (i + 0.5), i }));
  const drawn = kept
    .filter(({ i }) => i % every === 0)
    .map(({ label, x }) =>
      areTurned
        ? draw('text', { transform: `translate(${x + 4},6) rotate(-90)`, 'text-anchor': 'end' }, label)
        : draw('text', { x, y: 14, 'text-anchor': 'middle' }, label)
    );
  return { room: areTurned ? longest + 12 : 20, drawn };
}

function thin(cell: number, need: number): number {
  return EVERY.find(every => every * cell >= need) ?? EVERY[EVERY.length - 1];
}

function cut(label: string): string {
  return label.length <= CUT ? label : `${label.slice(0, CUT - 1)}…`;
}
