import * as React from 'react';

import { formatNumber } from '../../numbers';
import type { StatsView, ValueView } from '../../schema';
import { useWords, Words } from '../words';

/** One value in one line, shortened where there is no room; the tooltip shows all of it. */
export function Value({ value, name }: { value: ValueView; name?: string }): JSX.Element {
  const words = useWords();
  return (
    <span className="rfnb-Value" data-alarm={(value.alarms ?? []).length > 0} title={aboutValue(value, words)}>
      {name !== undefined && <span className="rfnb-Value-name">{name}</span>}
      <span className="rfnb-Value-text">{value.text}</span>
      <Picture value={value} />
    </span>
  );
}

/** The picture of a value; only data URIs are shown, never an address on the network. */
export function Picture({ value }: { value: ValueView }): JSX.Element | null {
  if (!value.picture || !value.picture.startsWith('data:image/')) {
    return null;
  }
  return <img className="rfnb-Picture" src={value.picture} alt={value.name} />;
}

/** Minimum, mean and maximum of the valid entries. */
export function Stats({ stats }: { stats: StatsView | null }): JSX.Element | null {
  const words = useWords();
  if (stats === null || stats.count < 2) {
    return null;
  }
  if (stats.min === 'nan') {
    return (
      <span className="rfnb-Stats" title={aboutStats(stats, words)}>
        <i>{words.__('no entry is finite')}</i>
      </span>
    );
  }
  const part = (label: string, number: StatsView['min']) => (
    <span>
      <i>{label}</i> {formatNumber(number)}
    </span>
  );
  return (
    <span className="rfnb-Stats" title={aboutStats(stats, words)}>
      {part(words.__('min'), stats.min)} {part(words.__('mean'), stats.mean)} {part(words.__('max'), stats.max)}
    </span>
  );
}

function aboutStats(stats: StatsView, words: Words): string {
  const lines =
    stats.std === 'nan'
      ? [words.__('%1 valid entries', stats.count)]
      : [words.__('over %1 valid entries, standard deviation %2', stats.count, formatNumber(stats.std))];
  if (stats.nan + stats.inf > 0) {
    lines.push(words.__('%1 NaN, %2 infinite', stats.nan, stats.inf));
  }
  if (stats.first_bad) {
    lines.push(words.__('first at %1', stats.first_bad));
  }
  if (stats.sampled !== null) {
    lines.push(words.__('over a sample of %1 entries', stats.sampled));
  }
  return lines.join('\n');
}

function aboutValue(value: ValueView, words: Words): string {
  const head = `${value.name}: ${value.dtype} {${value.dims.map(dim => `${dim.name}:${dim.size}`).join(', ')}}`;
  const stats = value.stats ? [aboutStats(value.stats, words)] : [];
  return [head, value.text, ...stats].join('\n');
}
