/** What `to_scripts` of rfnb/display/graph/view.py tells: the drawn picture as parts. */
export interface GraphScripts {
  root: string;
  /** Of an open node: its body is at (pad, head). */
  frame: { pad: number; head: number };
  bodies: { [id: string]: Body };
}

export interface Body {
  width: number;
  height: number;
  /** Left and right end of each. */
  columns: [number, number][];
  svg: string;
  nodes: GraphNode[];
  edges: Edge[];
}

/** Lines leave at the lower end, less the tail. */
export interface Size {
  w: number;
  h: number;
  tail?: number;
}

export interface GraphNode extends Size {
  id: string;
  name: string;
  path?: string;
  /** What can be found, and is told. */
  text: string;
  x: number;
  y: number;
  rank: number;
  column: number;
  body: string | null;
  open?: boolean;
  /** The node in its other state; of a closed one the frame without the body. */
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
