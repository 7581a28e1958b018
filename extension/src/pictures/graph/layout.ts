import type { Body, Edge, GraphNode, Point, Size } from './types';

const CORNER = 8;

export interface Box extends Size {
  x: number;
  y: number;
}

/** Where everything in a body goes when some of its nodes have another size than in the picture. */
export interface Placed {
  width: number;
  height: number;
  nodes: Map<string, Box>;
  edges: Map<Edge['id'], Point[]>;
}

/** The nodes of one rank in one column with the lines between them: where they were, and how far they move. */
interface Row {
  top: number;
  bottom: number;
  left: number;
  right: number;
  /** Nodes from left to right, and by how much each becomes wider. */
  nodes: GraphNode[];
  growth: number[];
  taller: number;
  /** How far the left end moves. */
  shift: number;
}

interface Column {
  rows: Row[];
  left: number;
  right: number;
  wider: number;
  /** How far it moves because of the columns to its left. */
  shift: number;
}

/** A vertical line. */
interface Upright {
  x: number;
  top: number;
  bottom: number;
}

type Sizes = (node: GraphNode) => Size;

/**
 * Moves everything in a body to fit the new sizes of its nodes.
 *
 * Rows keep their middle and push what is below; a column is as wide as its widest row and pushes the next column.
 *
 * Rows and sizes are those that Python draws: tests/golden/unfold.json holds both to it.
 */
export function place(body: Body, sizes: Sizes): Placed {
  const columns = columnsOf(body, sizes);
  const nodes = new Map<string, Box>();
  for (const column of columns) {
    let down = 0;
    for (const row of column.rows) {
      let right = column.shift + row.shift;
      row.nodes.forEach((node, i) => {
        nodes.set(node.id, { ...sizes(node), x: node.x + right, y: node.y + down });
        right += row.growth[i];
      });
      down += row.taller;
    }
  }
  const old = new Map(body.nodes.map(node => [node.id, node]));
  const edges = new Map(body.edges.map(edge => [edge.id, moved(edge, columns, body, old, nodes)]));
  const lowest = (boxes: Iterable<Box>) => Math.max(0, ...[...boxes].map(box => box.y + box.h));
  return {
    width: body.width + columns.reduce((sum, column) => sum + column.wider, 0),
    height: body.height + lowest(nodes.values()) - lowest(body.nodes),
    nodes,
    edges
  };
}

/** An SVG path through the points; the last one is the tip of the arrow. */
export function pathOf(points: Point[], shape: Edge['shape']): string {
  const [[x, y], ...rest] = points;
  let [fromX, fromY] = [x, y];
  let path = `M${x},${y}`;
  rest.forEach(([u, v], i) => {
    if (shape === 'smooth') {
      const middle = (fromY + v) / 2;
      path += fromX === u ? `L${u},${v}` : `C${fromX},${middle} ${u},${middle} ${u},${v}`;
    } else {
      path += i === rest.length - 1 ? `L${u},${v}` : corner([fromX, fromY], [u, v], rest[i + 1]);
    }
    [fromX, fromY] = [u, v];
  });
  return path;
}

function corner(from: Point, at: Point, to: Point, radius = 8): string {
  const before = towards(at, from, radius);
  const after = towards(at, to, radius);
  return `L${before}Q${at} ${after}`;
}

function towards([x, y]: Point, [u, v]: Point, most: number): Point {
  const length = Math.hypot(u - x, v - y);
  const part = length === 0 ? 0 : Math.min(most, length / 2) / length;
  return [x + (u - x) * part, y + (v - y) * part];
}

function columnsOf(body: Body, sizes: Sizes): Column[] {
  let shift = 0;
  return body.columns.map(([left, right], index) => {
    const nodes = body.nodes.filter(node => node.column === index);
    const upright = body.edges.flatMap(uprightOf).filter(({ x }) => left <= x && x < right);
    const column = columnOf(nodes, upright, sizes, shift);
    shift += column.wider;
    return column;
  });
}

/** The vertical parts of a line. */
function uprightOf({ points, shape }: Edge): Upright[] {
  const pairs = shape === 'smooth' ? points.slice(1).map((end, i) => [points[i], end]) : [];
  return pairs.filter(([[x], [u]]) => x === u).map(([[x, top], [, bottom]]) => ({ x, top, bottom }));
}

function columnOf(nodes: GraphNode[], upright: Upright[], sizes: Sizes, shift: number): Column {
  const ranks = [...new Set(nodes.map(node => node.rank))].sort((a, b) => a - b);
  const rows = ranks.map(rank =>
    rowOf(
      nodes.filter(node => node.rank === rank).sort((a, b) => a.x - b.x),
      upright,
      sizes
    )
  );
  const left = Math.min(...rows.map(row => row.left));
  const right = Math.max(...rows.map(row => row.right));
  const farLeft = Math.min(...rows.map(row => row.left + row.shift));
  rows.forEach(row => (row.shift += left - farLeft));
  const farRight = Math.max(...rows.map(row => row.right + row.shift + sum(row.growth)));
  return { rows, left, right, wider: rows.length ? farRight - right : 0, shift };
}

function rowOf(nodes: GraphNode[], upright: Upright[], sizes: Sizes): Row {
  const growth = nodes.map(node => sizes(node).w - node.w);
  const top = Math.min(...nodes.map(node => node.y));
  const bottom = Math.max(...nodes.map(node => node.y + node.h));
  const lines = upright.filter(line => passes(line, { top, bottom })).map(({ x }) => x);
  return {
    top,
    bottom,
    left: Math.min(nodes[0].x, ...lines),
    right: Math.max(...nodes.map(node => node.x + node.w), ...lines),
    nodes,
    growth,
    taller: Math.max(...nodes.map(node => node.y + sizes(node).h)) - bottom,
    shift: -sum(growth) / 2
  };
}

function passes(line: { top: number; bottom: number }, row: { top: number; bottom: number }): boolean {
  return line.top < row.bottom && row.top < line.bottom;
}

/** A line with additional points where it enters and leaves each row that has changed. */
function withPasses(edge: Edge, columns: Column[], body: Body): Edge {
  const more = uprightOf(edge).flatMap(line => {
    const rows = columns[columnAt(line.x, body)]?.rows ?? [];
    const changed = rows.filter(row => (row.shift || row.growth.some(Boolean)) && passes(line, row));
    const ends = changed.flatMap(row => [row.top, row.bottom]).filter(y => line.top < y && y < line.bottom);
    return ends.map((y): Point => [line.x, y]);
  });
  return more.length ? { ...edge, points: [...edge.points, ...more].sort(([, y], [, v]) => y - v) } : edge;
}

function columnAt(x: number, body: Body): number {
  return Math.max(
    0,
    body.columns.findIndex(([left, right]) => left <= x && x < right)
  );
}

function moved(drawn: Edge, columns: Column[], body: Body, old: Map<string, Box>, boxes: Map<string, Box>): Point[] {
  const edge = withPasses(drawn, columns, body);
  const points = edge.points.map(point => movedPoint(point, columns, body));
  const last = points.length - 1;
  const [from, to] = [edge.from, edge.to].map(id => ({ before: old.get(id), after: boxes.get(id) }));
  if (from.before && from.after) {
    points[0] = along(edge.points[0], from.before, from.after, lowerEnd);
  }
  if (to.before && to.after) {
    points[last] = along(edge.points[last], to.before, to.after, box => box.y);
  }
  if (edge.shape === 'round') {
    straighten(edge.points, points, 0);
    straighten(edge.points, points, 1);
  }
  return points;
}

function movedPoint([x, y]: Point, columns: Column[], body: Body): Point {
  const column = columns[columnAt(x, body)];
  if (!column || column.rows.length === 0) {
    return [x + (column?.shift ?? 0), y];
  }
  const down = sum(column.rows.filter(row => row.bottom <= y).map(row => row.taller));
  return [x + column.shift + sideways(x, y, column), y + down];
}

/** How far a point moves sideways: with its row, or outside of all rows with the column. */
function sideways(x: number, y: number, column: Column): number {
  if (x <= column.left) {
    return 0;
  }
  if (x >= column.right) {
    return column.wider;
  }
  const distance = (row: Row) => Math.max(row.top - y, y - row.bottom, 0);
  const row = column.rows.reduce((best, other) => (distance(other) < distance(best) ? other : best));
  const passed = row.nodes.map((node, i) => row.growth[i] * Math.min(1, Math.max(0, (x - node.x) / node.w)));
  return row.shift + sum(passed);
}

/** Where lines leave a node: above the text that stands below some nodes. */
function lowerEnd(box: Box): number {
  return box.y + box.h - (box.tail ?? 0);
}

/** The end of a line, as far from the middle of a node that has grown as before, within its corners. */
function along([x, y]: Point, before: Box, after: Box, end: (box: Box) => number): Point {
  const most = after.w / 2 - CORNER;
  const aside = x - before.x - before.w / 2;
  return [after.x + after.w / 2 + Math.max(-most, Math.min(most, aside)), y + end(after) - end(before)];
}

/** Keeps vertical parts vertical and horizontal parts horizontal; an end at a node decides where they go. */
function straighten(before: Point[], after: Point[], axis: 0 | 1): void {
  let start = 0;
  for (let i = 1; i <= before.length; i++) {
    if (i === before.length || before[i][axis] !== before[start][axis]) {
      const run = after.slice(start, i);
      const values = run.map(point => point[axis]);
      if (run.length < after.length) {
        const all = start === 0 ? values[0] : i === before.length ? values[values.length - 1] : Math.max(...values);
        run.forEach(point => (point[axis] = all));
      }
      start = i;
    }
  }
}

function sum(numbers: number[]): number {
  return numbers.reduce((total, n) => total + n, 0);
}
