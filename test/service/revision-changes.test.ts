import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import { revisionChanges, revisionHistory } from '../support/revision-changes.ts';
import { createSampleAccount } from '../../src/sample/sample-account.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { definitions } from './served-api.ts';

const revisions = Number(process.env['REVISIONS'] ?? 5);
const entities = [...definitions].flatMap(([name, { entities: own }]) =>
  [...own.values()].map((entity) => [name, entity.name, entity] as const),
);

/** Key text -> row text, by the key that the definition declares. */
function truthByKey(
  name: string,
  entity: (typeof entities)[number][2],
  size: 'tiny' | 'small',
  revision: number,
) {
  const account = createSampleAccount({ definitionName: name, seed: 7, size, revision });
  const inject = entity.parents[0]?.inject ?? new Map<string, string>();
  return new Map(
    Array.from(sampleTruth(account, entity.name), ({ record, params }) => [
      JSON.stringify(entity.key.map((field) => record[field] ?? params[inject.get(field) ?? field] ?? null)),
      JSON.stringify([record, params]),
    ]),
  );
}

describe.each(['tiny', 'small'] as const)('what a revision did, in a %s account,', (size) => {
  it.each(entities)(
    'is the difference between its truth and that before it: %s %s',
    (name, entity, declared) => {
      let before = truthByKey(name, declared, size, 0);
      const ever = new Set(before.keys());
      const met = new Set<string>();
      let revision = 0;
      for (const changes of revisionHistory({ definitionName: name, seed: 7, size }, entity, revisions)) {
        revision += 1;
        const after = truthByKey(name, declared, size, revision);
        const textOf = (key: JsonObject): string =>
          JSON.stringify(declared.key.map((field) => key[field] ?? null));
        const keys = (...kinds: readonly (keyof typeof changes)[]): readonly string[] =>
          kinds.flatMap((kind) => changes[kind].map(textOf)).sort();
        const isMember = entity === 'list_members';
        const came = [...after.keys()].filter((key) => !before.has(key));
        const left = [...before.keys()].filter((key) => !after.has(key));
        const others = [...after.keys()].filter(
          (key) => before.has(key) && before.get(key) !== after.get(key),
        );
        const all = keys('added', 'changed', 'deleted', 'archived', 'moved', 'revived');
        expect(new Set(all).size).toBe(all.length);
        expect(all).toEqual([...came, ...left, ...others].sort());
        expect(keys('revived')).toEqual(came.filter((key) => ever.has(key)).sort());
        expect(
          keys('added')
            .concat(isMember ? keys('moved') : [])
            .sort(),
        ).toEqual(came.filter((key) => !ever.has(key)).sort());
        if (isMember) expect(keys('deleted')).toEqual(left.sort());
        for (const [kind, named] of Object.entries(changes)) if (named.length > 0) met.add(kind);
        for (const key of after.keys()) ever.add(key);
        before = after;
      }
      expect(revision).toBe(revisions);
      expect([...met].sort()).toEqual(expectedKinds(entity).toSorted());
    },
  );
});

function expectedKinds(entity: string): readonly string[] {
  const usual = ['added', 'changed', 'deleted', 'revived'];
  switch (entity) {
    case 'list_members':
    case 'pages':
    case 'blocks':
      return [...usual, 'archived', 'moved'];
    case 'documents':
      return [...usual, 'moved'];
    case 'data_sources':
      return ['added', 'changed', 'archived', 'revived'];
    case 'unsubscribes':
      return ['added', 'deleted', 'revived'];
    default:
      return usual;
  }
}

describe('revisionChanges', () => {
  it.each(entities)('names one revision as the history does: %s %s', (name, entity) => {
    const options = { definitionName: name, seed: 7, size: 'tiny' as const };
    expect(revisionChanges(options, entity, 3)).toEqual([...revisionHistory(options, entity, 3)][2]);
  });

  it('touches about one in a hundred members of a list', () => {
    const options = { definitionName: 'email-marketing', seed: 7, size: { members: 20_000 } };
    const changes = revisionChanges(options, 'list_members', 1);
    const touched = Object.values(changes).flat().length;
    expect(touched).toBeGreaterThan(150);
    expect(touched).toBeLessThan(300);
  });
});
