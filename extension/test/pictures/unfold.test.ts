import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';

import { place } from '../../src/pictures/graph/layout';
import type { Body } from '../../src/pictures/graph/types';

interface Case {
  open: string;
  line_in_the_middle: boolean;
  before: Body;
  after: Body;
}

/** Bodies before and after a node opens, as Python draws them: see tests/display/graph/test_unfold.py. */
const CASES = JSON.parse(readFileSync('../tests/golden/unfold.json', 'utf8')) as Case[];

const placedAs = ({ before, after }: Case) => {
  const sizes = new Map(after.nodes.map(node => [node.id, node]));
  return place(before, node => sizes.get(node.id)!);
};

describe('a node that opens', () => {
  it.each(CASES)('$open: makes the body as large, and moves rows as far down, as Python draws them', each => {
    const placed = placedAs(each);
    expect(placed.width).toBeCloseTo(each.after.width, 0);
    expect(placed.height).toBeCloseTo(each.after.height, 0);
    each.after.nodes.forEach(({ id, y }) => expect(placed.nodes.get(id)!.y).toBeCloseTo(y, 0));
  });

  it.each(CASES.filter(each => each.line_in_the_middle))(
    '$open: leaves boxes and lines where Python draws them',
    each => {
      const placed = placedAs(each);
      each.after.nodes.forEach(({ id, x }) => expect(placed.nodes.get(id)!.x).toBeCloseTo(x, 0));
      for (const { id, points } of each.after.edges) {
        const numbers = placed.edges.get(id)!.flat();
        points.flat().forEach((number, i) => expect(numbers[i]).toBeCloseTo(number, 0));
      }
    }
  );
});
