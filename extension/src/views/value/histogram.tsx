import * as React from 'react';

import { formatNumber } from '../../numbers';
import type { StatsView } from '../../schema';
import { useWords } from '../words';

const BAR = 7;
const HEIGHT = 16;

/** A histogram of the valid entries, from minimum to maximum. */
export function Histogram({ stats }: { stats: StatsView | null }): JSX.Element | null {
  const words = useWords();
  const counts = stats?.histogram ?? null;
  if (stats === null || counts === null) {
    return null;
  }
  const most = Math.max(...counts, 1);
  const width = BAR * counts.length;
  const label = words.__('Histogram of entries from %1 to %2', formatNumber(stats.min), formatNumber(stats.max));
  return (
    <svg className="rfnb-Histogram" width={width} height={HEIGHT} role="img" aria-label={label}>
      <title>{label}</title>
      {counts.map((count, i) => {
        const height = count === 0 ? 0 : Math.max(1, (HEIGHT * count) / most);
        return <rect key={i} x={i * BAR} y={HEIGHT - height} width={BAR - 1} height={height} />;
      })}
    </svg>
  );
}
