import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { tellingTrigrams, trigramsOf, isNear, slipsAllowed, wordsOf } from '../../../src/search/words.ts';
import { member } from '../../contracts/sink/fixture.ts';
import { seededRandom } from '../../support/seeded-random.ts';
import { IndexWorld } from '../../support/search/index-world.ts';
import { repeats, startSeed } from '../../support/trials.ts';

const trials = repeats('TRIALS', { share: 60, full: 1000 });
const seed = startSeed();
const stems = [
  'smith',
  'schmidt',
  'quarterly',
  'überblick',
  'aaaaaaaa',
  '東京都庁',
  '𝒳𝒴𝒵𝒳𝒴',
  'ab',
  'r2d2c3po',
  'straße',
];

let world: IndexWorld;

beforeEach(async () => {
  world = await IndexWorld.open();
});

afterEach(async () => {
  await world.close();
});

describe('what the search index answers', () => {
  it(`is what a look at every row finds, through inserts and changes (seed ${seed})`, async () => {
    const random = seededRandom(seed);
    const names = new Map<string, string>();
    for (let round = 0; round < 4; round += 1) {
      const changed = Array.from({ length: 120 }, () => {
        const id = String(Math.floor(random() * 250));
        names.set(id, Array.from({ length: Math.floor(random() * 4) }, () => slipped(random)).join(' '));
        return [id, names.get(id)] as const;
      });
      await world.store(...new Map(changed.map(([id, name]) => [id, member(id, name)])).values());
      await world.update();
      for (let trial = 0; trial < trials / 4; trial += 1) {
        const words = Array.from(
          { length: 1 + Math.floor(random() * 2) },
          () => wordsOf(slipped(random))[0] ?? 'x',
        );
        const about = `round ${round}: ${words.join(' ')}`;
        const rows = [...names].map(([id, name]) => ({ id, words: wordsOf(name) }));
        const have = rows.filter((row) => row.words.some((word) => words.includes(word)));
        expect(sorted(world.withWord('name', ...words)), about).toEqual(sorted(idsOf(have)));
        const near = rows.filter((row) => words.every((word) => row.words.some((one) => isNear(word, one))));
        const found = world.near('name', ...words);
        if (found !== null) expect(found, about).toEqual(expect.arrayContaining([...idsOf(near)]));
        if (words.every(canBeTold)) expect(sorted(found), about).toEqual(sorted(idsOf(near)));
      }
    }
  });

  it('is close for words in a row, whatever the order, and nothing where a word is nowhere', async () => {
    await world.store(
      member('1', 'Grace Brewster Hopper'),
      member('2', 'Hopper Graze'),
      member('3', 'Grace Kelly'),
    );
    await world.update();
    expect(world.near('name', 'grase', 'hoper')).toEqual(['1', '2']);
    expect(world.near('name', 'grace', 'zzzzzz')).toEqual([]);
    expect(world.near('tags', 'grace')).toEqual([]);
  });

  it('gives no list of rows that is as long as a good part of the table', async () => {
    await world.storeMany(12_000, (index) => (index % 10 === 0 ? 'Grace common' : 'Ada common'));
    await world.update();
    expect(world.withWord('name', 'common')).toBeNull();
    expect(world.near('name', 'comon')).toBeNull();
    expect(world.withWord('name', 'grace')).toHaveLength(1_200);
  });

  it('ignores an id in a search for similar words, and narrows by the others', async () => {
    const id = '7c983f2a1cc46b6cc538491b853d3007';
    await world.store(member('1', `Grace ${id}`), member('2', `Ada ${id}`));
    await world.update();
    expect(world.near('name', id)).toBeNull();
    expect(world.near('name', id, 'grase')).toEqual(['1']);
    expect(world.withWord('name', id)).toEqual(['1', '2']);
  });
});

describe('telling trigrams', () => {
  it('leave every word with the slips that are allowed at least one', () => {
    const random = seededRandom(seed);
    for (let trial = 0; trial < trials * 10; trial += 1) {
      const word = wordsOf(slipped(random))[0] ?? 'word';
      const slips = slipsAllowed(word);
      const telling = tellingTrigrams(word, slips);
      if (slips === 0 || telling === null) continue;
      let other = word;
      for (let slip = 0; slip < slips; slip += 1) {
        other = slip === 0 || random() < 0.8 ? slipIn(other, random) : other;
      }
      if (!isNear(word, other)) continue;
      const there = new Set(trigramsOf(other));
      expect(
        telling.some((trigram) => there.has(trigram)),
        `${word} ${other}`,
      ).toBe(true);
    }
  });
});

function canBeTold(word: string): boolean {
  return slipsAllowed(word) === 0 || tellingTrigrams(word, slipsAllowed(word)) !== null;
}

/** One of few words, with up to three slips. */
function slipped(random: () => number): string {
  let word = stems[Math.floor(random() * stems.length)] ?? '';
  for (let slips = Math.floor(random() * 4); slips > 0; slips -= 1) word = slipIn(word, random);
  return word;
}

function slipIn(word: string, random: () => number): string {
  const letters = Array.from(word);
  const at = Math.floor(random() * letters.length);
  const kind = Math.floor(random() * 4);
  if (kind === 0) letters.splice(at, 1);
  else if (kind === 1) letters.splice(at, 0, 'smq東'.charAt(Math.floor(random() * 4)));
  else if (kind === 2) letters[at] = 'smq東'.charAt(Math.floor(random() * 4));
  else letters.splice(at, 2, ...letters.slice(at, at + 2).toReversed());
  return letters.join('');
}

function idsOf(rows: readonly { readonly id: string }[]): readonly string[] {
  return rows.map(({ id }) => id);
}

function sorted(ids: readonly string[] | null): readonly string[] | null {
  return ids === null ? null : ids.toSorted();
}
