import * as React from 'react';

import { finite, formatNumber } from '../../numbers';
import type { Number } from '../../schema';
import { useWords } from '../words';

const WIDTH = 72;
const HEIGHT = 18;
const EDGE = 2.5;

/** The mean absolute value of a state after each step. The dot is the current step; crosses are not finite. */
export function Sparkline({ values, at }: { values: Number[]; at: number }): JSX.Element | null {
  const words = useWords();
  const numbers = finite(values);
  if (values.length < 2 || numbers.length === 0) {
    return null;
  }
  const low = Math.min(...numbers);
  const high = Math.max(...numbers);
  const x = (i: number) => EDGE + (i / (values.length - 1)) * (WIDTH - 2 * EDGE);
  const y = (value: number) => HEIGHT - EDGE - ((value - low) / (high - low || 1)) * (HEIGHT - 2 * EDGE);
  const here = Math.round(at * (values.length - 1));
  const current = values[here];
  const label = words.__('Mean absolute value over the steps: %1 to %2', formatNumber(low), formatNumber(high));
  return (
    <svg
      className="rfnb-Sparkline"
      width={WIDTH}
      height={HEIGHT}
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={label}
    >
      <title>{label}</title>
      {pieces(values).map((piece, i) => (
        <polyline key={i} points={piece.map(([j, value]) => `${x(j).toFixed(1)},${y(value).toFixed(1)}`).join(' ')} />
      ))}
      {values.map((value, i) =>
        typeof value === 'string' ? (
          <path key={i} className="rfnb-mod-bad" d={`M${x(i) - 2},${HEIGHT / 2 - 2}l4,4m0,-4l-4,4`} />
        ) : null
      )}
      {typeof current === 'number' && <circle cx={x(here)} cy={y(current)} r={EDGE} />}
    </svg>
  );
}

/** Unbroken stretches of finite values, as [index, value]. */
function pieces(values: Number[]): [number, number][][] {
  const found: [number, number][][] = [[]];
  values.forEach((value, i) => {
    if (typeof value === 'number') {
      found[found.length - 1].push([i, value]);
    } else {
      found.push([]);
    }
  });
  return found.filter(piece => piece.length > 0);
}
