import { mkdirSync } from 'node:fs';
import path from 'node:path';
import Database from 'better-sqlite3';
import { expect, it } from 'vitest';
import { schemaVersion } from '../../../src/sinks/sqlite/schema.ts';
import { searchableEntities } from '../../../src/service/store/store-entities.ts';
import { asTexts, expectedRecords } from '../../support/service/expected-search.ts';
import {
  definitionNamed,
  providerOf,
  sampleOf,
  searchable,
  searchAll,
  type StoreWorld,
  storeWorld,
} from '../../support/service/store-world.ts';
import { unpackFolder } from '../../support/stored/packed-files.ts';

const notes = 'workspace-notes';
const entities = searchableEntities(definitionNamed(notes));

/** The store that a service of the oldest version that is read has left, kept again. */
function olderWorld(): StoreWorld {
  const world = storeWorld();
  const folder = path.dirname(world.file('one'));
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  unpackFolder('context-store.json.br', folder);
  world.keep('one', notes, providerOf(notes, sampleOf(notes)));
  return world;
}

function ledgerOf(world: StoreWorld): { readonly version: unknown; readonly seq: unknown } {
  const db = new Database(world.file('one'), { readonly: true });
  try {
    const version = db.pragma('user_version', { simple: true });
    return { version, seq: db.prepare('SELECT seq FROM _sync_meta').pluck().get() };
  } finally {
    db.close();
  }
}

async function found(world: StoreWorld): Promise<readonly (readonly string[])[]> {
  const all: (readonly string[])[] = [];
  for (const { name } of entities) all.push(asTexts(await searchAll(world.stores, 'one', name)));
  return all;
}

const expected = entities.map((entity) => asTexts(expectedRecords(entity, sampleOf(notes))));

it('is searched as it was left, until it is synced', async () => {
  await using world = olderWorld();
  await searchable(world.stores, 'one');
  expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });
  expect(await found(world)).toEqual(expected);
  expect(ledgerOf(world)).toEqual({ version: 7, seq: 77 });
});

it('is brought to the version of today by its next sync, which writes no record', async () => {
  await using world = olderWorld();
  await world.refresh('one');
  expect(world.stores.status('one')).toMatchObject({ readiness: 'Ready', problem: null });
  expect(await found(world)).toEqual(expected);
  expect(ledgerOf(world)).toEqual({ version: schemaVersion, seq: 77 });
});
