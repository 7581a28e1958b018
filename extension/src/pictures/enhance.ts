import type { AttentionScripts, BeamScripts, ProbeScripts } from '../schema';
import { PLAIN, Words } from '../words';
import { enhanceAttention } from './attention/attention';
import { enhanceBeam } from './beam/tree';
import { enhanceDims } from './dims';
import { enhanceFrames } from './frames';
import { enhanceGraph } from './graph/graph';
import type { GraphScripts } from './graph/types';
import { enhanceProbe } from './probe';

/** The data that an output carries beside its HTML; old outputs carry nothing, or no kind. */
export interface Scripts {
  kind?: string;
}

/**
 * Makes the static HTML of a view interactive.
 *
 * A part that cannot be enhanced stays as it is. Returns a function that undoes it.
 */
export function enhance(root: HTMLElement, scripts: Scripts | null, words: Words = PLAIN): () => void {
  const made = [
    attempt(() => enhanceKind(root, scripts ?? {}, words)),
    attempt(() => enhanceDims(root)),
    attempt(() => enhanceFrames(root))
  ];
  return () => made.forEach(undo => undo());
}

function enhanceKind(root: HTMLElement, scripts: Scripts, words: Words): () => void {
  if (scripts.kind === 'graph') {
    return enhanceGraph(root, scripts as unknown as GraphScripts, words);
  }
  if (scripts.kind === 'attention') {
    return enhanceAttention(root, scripts as unknown as AttentionScripts, words);
  }
  if (scripts.kind === 'beam') {
    return enhanceBeam(root, scripts as unknown as BeamScripts, words);
  }
  if (scripts.kind === 'probe') {
    return enhanceProbe(root, scripts as unknown as ProbeScripts, words);
  }
  return () => undefined;
}

/** If a script fails, the static picture stays. */
function attempt(make: () => () => void): () => void {
  try {
    return make();
  } catch (error) {
    console.warn('rfnb: a view stays without scripts', error);
    return () => undefined;
  }
}
