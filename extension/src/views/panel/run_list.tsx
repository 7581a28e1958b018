import * as React from 'react';

import type { RunItem } from '../../schema';
import { Icon } from '../icons';
import { Chips } from '../value/chips';
import { useWords } from '../words';

/** The actions on a run in the list. */
export interface RunActions {
  open: (run: number) => void;
  pin: (run: number, pinned: boolean) => void;
  forget: (run: number) => void;
  /** Compares it with the run that is shown. */
  compare: (run: number) => void;
  rerun: (run: number) => void;
}

/** The runs of one loop, newest first. */
export interface RunGroup {
  loop: string;
  name: string;
  place: string;
  runs: RunItem[];
}

/** The runs that match the filter, grouped by loop; the loop with the newest run comes first. */
export function groupRuns(runs: readonly RunItem[], filter: string): RunGroup[] {
  const words = filter.toLowerCase().split(/\s+/);
  const groups = new Map<string, RunGroup>();
  for (const run of [...runs].sort((a, b) => b.run - a.run)) {
    const text = [run.name, run.place, ...run.flags].join(' ').toLowerCase();
    if (words.every(word => text.includes(word))) {
      const key = run.loop;
      const group = groups.get(key) ?? { loop: run.loop, name: run.name, place: run.place, runs: [] };
      group.runs.push(run);
      groups.set(key, group);
    }
  }
  return [...groups.values()];
}

export function RunList(props: {
  runs: readonly RunItem[];
  filter: string;
  chosen: number | null;
  /** Whether the chosen run itself is shown, rather than a loop inside it. */
  comparable: boolean;
  actions: RunActions;
  onFilter: (filter: string) => void;
}): JSX.Element {
  const words = useWords();
  const groups = groupRuns(props.runs, props.filter);
  return (
    <section className="rfnb-Runs" aria-label={words.__('Recorded runs')}>
      <input
        className="rfnb-Runs-filter"
        type="search"
        placeholder={words.__('Filter by name, place or flag')}
        aria-label={words.__('Filter runs')}
        value={props.filter}
        onChange={event => props.onFilter(event.currentTarget.value)}
      />
      <div className="rfnb-Runs-groups">
        {groups.length === 0 && <p className="rfnb-quiet">{words.__('No runs match.')}</p>}
        {groups.map(group => (
          <Group key={group.loop} group={group} {...props} />
        ))}
      </div>
    </section>
  );
}

function Group({
  group,
  chosen,
  comparable,
  actions
}: {
  group: RunGroup;
  chosen: number | null;
  comparable: boolean;
  actions: RunActions;
}): JSX.Element {
  return (
    <div className="rfnb-Group" role="group" aria-label={`${group.name} · ${group.place}`}>
      <div className="rfnb-Group-head">
        <span className="rfnb-Group-name" title={group.name}>
          {group.name}
        </span>
        <span className="rfnb-place">{group.place}</span>
      </div>
      <ul>
        {group.runs.map(run => (
          <Item
            key={run.run}
            item={run}
            place={run.place === group.place ? null : run.place}
            chosen={run.run === chosen}
            comparable={comparable && run.run !== chosen && group.runs.some(other => other.run === chosen)}
            actions={actions}
          />
        ))}
      </ul>
    </div>
  );
}

function Item(props: {
  item: RunItem;
  /** The place of the run, if it differs from that of the newest run. */
  place: string | null;
  chosen: boolean;
  /** Whether a run of the same loop is shown. */
  comparable: boolean;
  actions: RunActions;
}): JSX.Element {
  const { item, place, chosen, comparable, actions } = props;
  const words = useWords();
  const steps = words._n('%1 step', '%1 steps', item.steps);
  const size = item.is_last_only
    ? words.__('last iteration only')
    : item.batch === null
      ? steps
      : `${steps} × ${item.batch}`;
  const act = (name: 'rerun' | 'forget', label: string, title: string) => (
    <button
      className="rfnb-Run-act"
      type="button"
      aria-label={label}
      title={title}
      onClick={() => actions[name](item.run)}
    >
      <Icon name={name} />
    </button>
  );
  return (
    <li className="rfnb-Run" aria-current={chosen} data-run={item.run}>
      <button className="rfnb-Run-open" type="button" onClick={() => actions.open(item.run)}>
        <span className="rfnb-Run-number">#{item.run}</span>
        <span className="rfnb-Run-size">{size}</span>
        {place !== null && <span className="rfnb-place">{place}</span>}
        {item.parent !== null && (
          <span className="rfnb-Run-parent">{words.__('fork of #%1 at %2', item.parent, item.forked_at ?? 0)}</span>
        )}
        <Chips flags={item.flags} alarms={item.flags} />
      </button>
      {comparable && (
        <button
          className="rfnb-Run-compare rfnb-Link"
          type="button"
          aria-label={words.__('Compare with run %1', item.run)}
          title={words.__('Compare the current run with this one')}
          onClick={() => actions.compare(item.run)}
        >
          {words.__('compare')}
        </button>
      )}
      {item.parent === null &&
        !item.is_plain &&
        act('rerun', words.__('Run %1 again', item.run), words.__('Make the same call again with the current code'))}
      <button
        className="rfnb-Run-act"
        type="button"
        aria-pressed={item.pinned}
        aria-label={words.__('Pin run %1', item.run)}
        title={
          item.pinned
            ? words.__('Unpin this run, so that newer runs may replace it')
            : words.__('Pin this run, so that newer runs do not replace it')
        }
        onClick={() => actions.pin(item.run, !item.pinned)}
      >
        <Icon name="pin" />
      </button>
      {act('forget', words.__('Forget run %1', item.run), words.__('Forget this run'))}
    </li>
  );
}
