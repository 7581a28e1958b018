/** What `to_scripts` of rfnb/display/graph/view.py gives: the parts of the drawn picture. */
export interface GraphScripts {
  root: string;
  /** The body of an open node is at (pad, head). */
  frame: { pad: number; head: number };
  bodies: { [id: string]: Body };
}

export interface Body {
  width: number;
  height: number;
  /** Left and right end of each column. */
  columns: [number, number][];
  svg: string;
  nodes: GraphNode[];
  edges: Edge[];
}

/** Lines leave at the lower end, minus the tail. */
export interface Size {
  w: number;
  h: number;
  tail?: number;
}

export interface GraphNode extends Size {
  id: string;
  name: string;
  path?: string;
  /** The text to search, which is also shown for the chosen node. */
  text: string;
  x: number;
  y: number;
  rank: number;
  column: number;
  body: string | null;
  open?: boolean;
  /** The drawing of the node in its other state; for a closed node, the frame without the body. */
  other?: (Size & { svg: string }) | null;
}

export interface Edge {
  id: number | string;
  from: string;
  to: string;
  back?: boolean;
  shape: 'smooth' | 'round';
  points: Point[];
}

export type Point = [number, number];
