import { isUtf8 } from 'node:buffer';
import { describe, expect, it } from 'vitest';
import { scanPage } from '../../src/http/scan-json.ts';
import { arraysAt, differenceOf, type Paths } from '../support/check-scan.ts';
import { JsonSpellings } from '../support/json-spellings.ts';
import { seededRandom } from '../support/seeded-random.ts';
import { repeats, startSeed } from '../support/trials.ts';

const seed = startSeed();
const trials = repeats('TRIALS', { share: 1_500, full: 200_000 });

interface Answer {
  readonly text: string;
  readonly paths: Paths;
}

/** An answer with its records in one of the places that services have them in. */
function answerOf(spellings: JsonSpellings): Answer {
  const records = spellings.array(spellings.below(6), 4);
  const other = () => spellings.member(spellings.oneOf(['"more"', '"n\\u0065xt"', '"data"', '"é"']), 2);
  const others = () => Array.from({ length: spellings.below(3) }, other);
  const object = (name: string, value: string) =>
    `{${[...others(), spellings.member(name, 0, value), ...others()].join(',')}}`;
  const result = spellings.oneOf(['"result"', '"r\\u0065sult"']);
  const inSpace = (text: string) => spellings.space() + text + spellings.space();
  switch (spellings.below(4)) {
    case 0:
      return { text: inSpace(records), paths: [[]] };
    case 1:
      return {
        text: inSpace(object('"_embedded"', `{"members":${records}}`)),
        paths: [['_embedded', 'members']],
      };
    case 2:
      return { text: inSpace(object(result, records)), paths: [['result'], ['result', 'rows']] };
    default:
      return {
        text: inSpace(object(result, object('"rows"', records))),
        paths: [['result'], ['result', 'rows']],
      };
  }
}

/** Removes, adds or changes a few bytes. */
function edited(bytes: Buffer, spellings: JsonSpellings): Buffer {
  let result = bytes;
  for (let edits = 1 + spellings.below(2); edits > 0; edits -= 1) {
    const at = spellings.below(result.length + 1);
    const added = spellings.oneOf([
      ...Array.from('{}[],:"\\ 019.eE+-tu/\0'),
      '\u007f',
      '\t',
      'é',
      '\u00a0',
      '"a":1,',
      '1,',
    ]);
    const [before, behind] = [result.subarray(0, at), result.subarray(at + spellings.below(3))];
    result = spellings.oneOf([
      () => Buffer.concat([before, behind]),
      () => Buffer.concat([before, Buffer.from(added), result.subarray(at)]),
      () => Buffer.concat([before, Buffer.from(added), behind]),
      () => Buffer.concat([before, Buffer.of(spellings.below(256)), behind]),
      () => before,
    ])();
  }
  return result;
}

function isJson(bytes: Buffer): boolean {
  try {
    JSON.parse(bytes.toString());
    return isUtf8(bytes);
  } catch {
    // It is none.
    return false;
  }
}

/** Why an answer that is JSON may be refused all the same; an edit may also change names and numbers. */
function mayBeRefused(text: string, paths: Paths): boolean {
  const isRepeated = paths.flat().some((name) => text.split(`"${name}"`).length > 2);
  return isRepeated || /\\u|\d[eE]\+?\d{3}/.test(text) || arraysAt(JSON.parse(text), paths).length !== 1;
}

describe('a page that is scanned', () => {
  it(`has the values that JSON.parse reads, however they are spelled (seed ${seed})`, () => {
    const spellings = new JsonSpellings(seededRandom(seed));
    for (let trial = 0; trial < trials; trial += 1) {
      const { text, paths } = answerOf(spellings);
      const page = scanPage(Buffer.from(text), paths, 100);
      expect(page === null ? 'refused' : differenceOf(page, paths), text).toBeUndefined();
    }
  });

  it(`is none when some bytes were changed so that it is no JSON (seed ${seed})`, () => {
    const spellings = new JsonSpellings(seededRandom(seed + 1));
    const counts = { refused: 0, read: 0 };
    for (let trial = 0; trial < trials; trial += 1) {
      const { text, paths } = answerOf(spellings);
      for (let edits = 0; edits < 5; edits += 1) {
        const bytes = edited(Buffer.from(text), spellings);
        const page = scanPage(bytes, paths, 100);
        if (!isJson(bytes)) expect(page, bytes.toString()).toBeNull();
        else if (page !== null) expect(differenceOf(page, paths), bytes.toString()).toBeUndefined();
        else expect(mayBeRefused(bytes.toString(), paths), bytes.toString()).toBe(true);
        counts[page === null ? 'refused' : 'read'] += 1;
      }
    }
    expect(Math.min(counts.refused, counts.read)).toBeGreaterThan(trials / 2);
  });
});
