import { expect, it } from 'vitest';
import { donePage } from '../../src/page/page-routes.ts';

const world = {
  nowMs: 0,
  config: null,
  program: 'connector-sync',
  nav: [],
  links: [],
  visitor: null,
  problem: null,
};

it('lists what was done, of very many connectors the first and the last', () => {
  const act = { title: 'Pause 1,000 connectors', says: [], of: [], back: '', act: async () => undefined };
  const done = Array.from({ length: 1_000 }, (_, index) => `c${index}: paused.`);
  const [before = '', folded = '', after = ''] = donePage(act, done, world).split(
    /<details class="more">|<\/details>/,
  );
  const named = (text: string): number => text.split(': paused.').length - 1;
  expect([named(before), named(folded), named(after)]).toEqual([50, 949, 1]);
  expect(folded).toContain('and 949 more');
  expect(after).toContain('c999: paused.');
  expect(donePage(act, done.slice(0, 51), world)).not.toContain('<details');
});
