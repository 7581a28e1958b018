import { describe, expect, it } from 'vitest';

import { Requests } from '../../src/kernel/requests';
import type { FoundView, Message, Where } from '../../src/schema';
import { Finder } from '../../src/stepper/finder';
import { settle } from '../fake_kernel';

const WHERE: Where = { kind: 'not finite', name: null, line: null, limit: null, text: null };

/** A kernel that looks at `most` steps for each question, and a run of 20 steps. */
function searching(hits: number[], most = 5, where: Where[] = [WHERE]) {
  const asked: Message[] = [];
  const gone: number[] = [];
  const requests = new Requests(message => {
    asked.push(message);
    const { start, stop } = message.args as { start: number; stop: number };
    const way = stop > start ? 1 : -1;
    const end = Math.abs(stop - start) <= most ? null : start + way * most;
    const seen = (step: number) => (step - start) * way >= 0 && ((end ?? stop) - step) * way > 0;
    const data: FoundView = { hits: hits.filter(seen), next: end };
    setTimeout(() => requests.receive({ id: message.id, status: 'ok', data, error: null }));
  });
  const finder = new Finder(
    requests,
    { run: 1, steps: 20 },
    () => undefined,
    step => gone.push(step)
  );
  finder.set(where, null, false);
  return { finder, asked, gone, requests };
}

async function finished(finder: Finder): Promise<void> {
  do {
    await settle();
  } while (finder.state.running);
}

const starts = (asked: Message[]) => asked.map(message => message.args.start);

describe('Finder', () => {
  it('looks on from here first, goes to the first hit, then marks all others', async () => {
    const { finder, asked, gone } = searching([3, 12, 18]);
    finder.go('next', 9);
    await finished(finder);
    expect(starts(asked)).toEqual([10, 0, 5, 15]);
    expect(gone).toEqual([12]);
    expect(finder.state).toMatchObject({ hits: [3, 12, 18], searched: 20, none: null, error: null });
  });

  it('looks backward from here for the last one before it', async () => {
    const { finder, asked, gone } = searching([1, 7]);
    finder.go('previous', 15);
    await settle();
    expect(asked[0].args).toMatchObject({ start: 14, stop: -1 });
    await finished(finder);
    expect(gone).toEqual([7]);
    expect(finder.state.hits).toEqual([1, 7]);
  });

  it('asks no more for what it knows', async () => {
    const { finder, asked, gone } = searching([4, 8]);
    finder.go('next', -1);
    await finished(finder);
    const before = asked.length;
    finder.go('next', 4);
    finder.go('previous', 8);
    expect(gone).toEqual([4, 8, 4]);
    expect(asked).toHaveLength(before);
  });

  it.each([
    ['next', 8],
    ['previous', 4]
  ] as const)('says that there is no %s one', async (direction, from) => {
    const { finder, gone } = searching([4, 8]);
    finder.go(direction, from);
    await finished(finder);
    expect(finder.state.none).toBe(direction);
    expect(gone).toEqual([]);
  });

  it('stops when it is cancelled, and keeps what it found', async () => {
    const { finder, asked } = searching([2, 19], 1);
    finder.go('next', -1);
    while (finder.state.hits.length === 0) {
      await settle();
    }
    finder.cancel();
    const before = asked.length;
    await settle();
    await settle();
    expect(asked).toHaveLength(before);
    expect(finder.state).toMatchObject({ running: false, hits: [2] });
  });

  it('forgets what it found when something else is looked for, or another sequence', async () => {
    const { finder, asked } = searching([2]);
    finder.go('next', -1);
    await finished(finder);
    finder.set([WHERE], null, false);
    expect(finder.state.hits).toEqual([2]);
    finder.set([WHERE], 1, true);
    expect(finder.state).toMatchObject({ hits: [], searched: 0 });
    await finished(finder);
    expect(asked[asked.length - 1].args.sequence).toBe(1);
  });

  it('asks nothing when nothing is looked for', () => {
    const { finder, asked } = searching([2], 5, []);
    finder.go('next', 0);
    finder.set([], null, true);
    expect(asked).toHaveLength(0);
  });

  it('tells what was wrong with the question', async () => {
    const asked: Message[] = [];
    const requests = new Requests(message => asked.push(message));
    const finder = new Finder(
      requests,
      { run: 1, steps: 3 },
      () => undefined,
      () => undefined
    );
    finder.set([WHERE], null, true);
    requests.receive({ id: asked[0].id, status: 'error', data: null, error: 'there is no hh; did you mean h?' });
    await settle();
    expect(finder.state).toMatchObject({ running: false, error: 'there is no hh; did you mean h?' });
  });
});
