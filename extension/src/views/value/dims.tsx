import * as React from 'react';

import type { DimView } from '../../schema';
import { useWords, Words } from '../words';

/** The dims of a value as pills: name and size, or shortest–longest where sequences differ. */
export function Dims({ dims }: { dims: DimView[] }): JSX.Element {
  return (
    <span className="rfnb-Dims">
      {dims.map((dim, i) => (
        <Dim key={i} dim={dim} />
      ))}
    </span>
  );
}

export function Dim({ dim }: { dim: DimView }): JSX.Element {
  const words = useWords();
  const colour = dim.colour === null ? undefined : `var(--rfnb-dim-${dim.colour % 10})`;
  const style = colour === undefined ? undefined : ({ '--rfnb-hue': colour } as React.CSSProperties);
  return (
    <span
      className="rfnb-Dim"
      data-kind={dim.kind}
      data-rfnb-dim={dim.serial}
      data-dynamic={dim.length_range !== null}
      style={style}
      title={about(dim, words)}
    >
      <span className="rfnb-Dim-name">{dim.name}</span>
      <span className="rfnb-Dim-size">{sizeOf(dim)}</span>
    </span>
  );
}

/** "5", or "3–9" where lengths differ; "?" if it is not known. */
export function sizeOf(dim: DimView): string {
  const range = dim.length_range;
  return range && range[0] !== range[1] ? `${range[0]}–${range[1]}` : largest(dim);
}

function largest(dim: DimView): string {
  return dim.size < 0 ? '?' : String(dim.size);
}

function about(dim: DimView, words: Words): string {
  const lines = [`${dim.name}: ${largest(dim)}`];
  if (dim.length_range) {
    lines.push(
      words.__('lengths %1 to %2, %3 in total', dim.length_range[0], dim.length_range[1], dim.length_range[2])
    );
  }
  if (dim.lengths) {
    lines.push(`[${dim.lengths.slice(0, 24).join(', ')}${dim.lengths.length > 24 ? ', …' : ''}]`);
  }
  if (dim.formula) {
    lines.push(`= ${dim.formula}`);
  }
  if (dim.made) {
    lines.push(words.__('created in %1', dim.made));
  }
  return lines.join('\n');
}
