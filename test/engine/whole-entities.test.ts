import { completenessOf } from '../../src/sinks/completeness.ts';
import { describe, expect, it } from 'vitest';
import { noCounts } from '../../src/core/records.ts';
import type { EntityName } from '../../src/core/names.ts';
import { wholeEntities } from '../../src/engine/sync-connector.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { allEntities, chosenEntities } from '../support/sync-once.ts';
import type { ChosenEntities } from '../../src/engine/chosen-entities.ts';

const none: ReadonlySet<EntityName> = new Set();
const nothing = { partMissing: none, unconfirmed: none, left: none };
const mailing = builtInDefinition('email-marketing');

/** The entities that count as whole when something was left out of those named. */
function wholeWithout(leftOut: readonly string[], chosen: ChosenEntities = allEntities(mailing)): string[] {
  return wordsWithout(leftOut, chosen).flatMap(({ entity, isWhole }) => (isWhole ? [entity] : []));
}

function wordsWithout(
  leftOut: readonly string[],
  chosen: ChosenEntities = allEntities(mailing),
  found: Partial<typeof nothing> = {},
) {
  const names: readonly EntityName[] = [...mailing.entities.values()]
    .filter(({ name }) => chosen.has(name))
    .flatMap(({ name, explodedTable }) => (explodedTable === null ? [name] : [name, explodedTable.entity]));
  const reports = names.map((entity) => ({
    entity,
    counts: noCounts,
    pages: 1,
    proofs: { single: 1, seam: 0, token: 0, keyset: 0 },
    setAside: 0,
    unordered: 0,
    undated: 0,
    extraFields: 0,
    depthLimited: 0,
    foreign: 0,
    partial: 0,
    incremental: 0,
    deleted: 0,
    withheld: 0,
    pending: 0,
    toConfirm: 0,
    withdrawn: 0,
    withheldBecause: null,
    withholding: null,
    isProven: true,
    completeness: 'complete' as const,
    isWhole: !leftOut.includes(entity),
  }));
  return wholeEntities(mailing, chosen, reports, { ...nothing, ...found }, ({ isWhole }) => !isWhole);
}

describe('an entity is whole', () => {
  it('when nothing was left out anywhere', () => {
    expect(wholeWithout([])).toContain('email_activity_events');
    expect(wholeWithout([]).length).toBe(mailing.entities.size + 1);
  });

  // Proves promise 11.3
  it('not when something is missing of what leads to it, at whatever distance', () => {
    const whole = wholeWithout(['lists']);
    expect(whole).toContain('campaigns');
    for (const below of ['lists', 'list_members', 'segments', 'segment_members']) {
      expect(whole).not.toContain(below);
    }
  });

  it('not when its rows are made of elements of an entity that is not', () => {
    expect(wholeWithout(['email_activity'])).not.toContain('email_activity_events');
  });

  it('whatever is missing of entities beside and below it', () => {
    expect(
      wholeWithout(['list_members'], chosenEntities(mailing, ['lists', 'list_members', 'segments'])),
    ).toEqual(['lists', 'segments']);
  });
});

describe('the word for how complete an entity is', () => {
  const wordOf = (entity: string, found: Partial<typeof nothing>, leftOut: readonly string[] = []) =>
    wordsWithout(leftOut, allEntities(mailing), found).find((one) => one.entity === entity)?.completeness;
  const [lists] = [...mailing.entities.keys()].filter((name) => name === 'lists');
  const ofLists = new Set(lists === undefined ? [] : [lists]);

  // Proves promise 3
  it('is the worst of what holds of its listings', () => {
    const facts = { isUnread: false, isDoubted: false, isUnordered: false };
    expect(completenessOf(facts, [])).toBe('complete');
    expect(completenessOf({ ...facts, isUnordered: true }, [])).toBe('unconfirmed');
    expect(completenessOf({ ...facts, isDoubted: true, isUnordered: true }, [])).toBe('part-missing');
    expect(completenessOf({ ...facts, isUnread: true, isDoubted: true }, [])).toBe('not-yet');
    expect(completenessOf({ ...facts, isUnordered: true }, ['complete', 'part-missing'])).toBe(
      'part-missing',
    );
  });

  it.each([
    [{ unconfirmed: ofLists }, 'unconfirmed'],
    [{ partMissing: ofLists, unconfirmed: ofLists }, 'part-missing'],
    [{ left: ofLists, partMissing: ofLists }, 'not-yet'],
    [{}, 'complete'],
  ] as const)('holds of what is found through it too: %o', (found, word) => {
    expect(wordOf('lists', found)).toBe(word);
    expect(wordOf('segment_members', found)).toBe(word);
    expect(wordOf('campaigns', found)).toBe('complete');
  });

  it('is never "complete" where something of it failed', () => {
    expect(wordOf('list_members', {}, ['lists'])).toBe('not-yet');
    const failed = wordsWithout(['lists']).flatMap(({ entity, isProven }) => (isProven ? [] : [entity]));
    expect(failed).toEqual(expect.arrayContaining(['lists', 'list_members']));
    expect(failed).not.toContain('campaigns');
  });
});
