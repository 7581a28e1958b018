import type { GraphScripts } from './types';

const MOST = 3000;

/** The paths to the nodes whose text contains all words, each from the outermost node inwards. */
export function find(scripts: GraphScripts, text: string): string[][] {
  const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
  const found: string[][] = [];
  const look = (id: string, way: string[]) => {
    for (const node of scripts.bodies[id]?.nodes ?? []) {
      const path = [...way, node.id];
      const said = node.text.toLowerCase();
      if (found.length < MOST && wanted.every(word => said.includes(word))) {
        found.push(path);
      }
      if (node.body !== null && found.length < MOST) {
        look(node.body, path);
      }
    }
  };
  if (wanted.length) {
    look(scripts.root, []);
  }
  return found;
}
