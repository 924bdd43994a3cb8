import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished } from 'vitest';
import { keyTextOf } from '../../src/core/records.ts';
import { openPostgresTarget, type PostgresPlace } from '../../src/publish/postgres-target.ts';
import { targetContract, type TargetKind } from '../contracts/target-contract.ts';
import { it } from '../support/it.ts';
import { isCommit, startPostgresProxy, type Passing } from '../support/postgres-proxy.ts';
import { useMart, type Mart } from '../support/publish/mart.ts';
import { openPublishWorld } from '../support/publish/publish-world.ts';
import { postgresTableRows } from '../support/publish/read-tables.ts';
import {
  addColumns,
  addEntity,
  emptyModel,
  people,
  remove,
  store,
  tableHow,
  tableOf,
} from '../support/publish/stored-model.ts';
import { isLong } from '../support/trials.ts';

const { server, client, placeOf, schemaOf, open } = useMart();

function kindOf(deletes: PostgresPlace['deletes']): TargetKind {
  return {
    open: async (folder) => openPostgresTarget(placeOf(folder, deletes), tableHow),
    rows: async (folder, entity) =>
      await postgresTableRows(client(), schemaOf(folder), {
        connector: entity.connector,
        table: tableOf(entity),
      }),
  };
}

describe('a target in PostgreSQL that marks deletes', () => {
  targetContract(kindOf('mark'));
});

describe.runIf(isLong)('a target in PostgreSQL that removes deleted rows', () => {
  targetContract(kindOf('remove'));
});

describe('a target in PostgreSQL', () => {
  it('marks deleted rows, which keep their last values', async ({ folder }) => {
    await using mart = await open(folder);
    const entity = await mart.publishPeople();
    remove(mart.model, entity, 'p2');
    await mart.publish();
    const marked = await mart.ask(
      'SELECT id, name, _seq FROM news__people WHERE _deleted AND _deleted_at = _changed_at',
    );
    expect(marked).toEqual([{ id: 'p2', name: 'Ada', _seq: '4' }]);
    expect(await mart.ask('SELECT id, name FROM news__people WHERE NOT _deleted ORDER BY id')).toEqual([
      { id: 'p1', name: 'Ada' },
      { id: 'p3', name: 'Ada' },
    ]);
    addColumns(entity, { name: 'email', type: 'string' });
    store(mart.model, entity, { id: 'p1', email: 'e' });
    await mart.publish();
    expect(await mart.ask(`SELECT id, name, more, email FROM news__people WHERE id = 'p1'`)).toEqual([
      { id: 'p1', name: null, more: null, email: 'e' },
    ]);
  });

  it('removes deleted rows where it is asked to, those of the first publication too', async ({ folder }) => {
    await using mart = await open(folder, 'remove');
    const entity = people(mart.model);
    for (const id of ['p1', 'p2']) {
      remove(mart.model, entity, id);
      await mart.publish();
    }
    expect(await mart.ask('SELECT id, _deleted FROM news__people')).toEqual([{ id: 'p3', _deleted: 'f' }]);
    expect(await mart.problems()).toEqual([]);
  });

  it('keeps views and rights of others through a new generation, and rights where the table is recreated', async ({
    folder,
  }) => {
    await using mart = await open(folder);
    const { schema, ask, model } = mart;
    await mart.publishPeople();
    await ask(`CREATE ROLE analyst_${schema}`);
    await ask(`GRANT SELECT ON news__people TO analyst_${schema}`);
    await ask('CREATE VIEW mine AS SELECT name FROM news__people WHERE NOT _deleted');
    await mart.publishPeople(2);
    expect(await ask('SELECT * FROM mine')).toHaveLength(2);
    store(model, addEntity(model, 'people', [{ name: 'id', type: 'integer' }]), { id: 1 });
    await mart.refused(/Views or other objects.*Drop them, publish again/);
    // Nothing of it is there: readers still see what was.
    expect(await ask('SELECT * FROM mine')).toHaveLength(2);
    await ask('DROP VIEW mine');
    await mart.publish();
    const rights = await ask(
      `SELECT table_name FROM information_schema.role_table_grants WHERE grantee = 'analyst_${schema}' ORDER BY 1`,
    );
    expect(rights).toEqual([{ table_name: 'news__people' }]);
  });

  it('keeps a row that is newer than a change of the same key', async ({ folder }) => {
    await using mart = await open(folder);
    const entity = await mart.publishPeople();
    await mart.ask(`UPDATE news__people SET _seq = 100, name = 'newer' WHERE id IN ('p1', 'p2')`);
    store(mart.model, entity, { id: 'p1', name: 'older' });
    remove(mart.model, entity, 'p2');
    store(mart.model, entity, { id: 'p3', name: 'changed' });
    await mart.publish();
    expect(await mart.ask('SELECT id, name, _deleted FROM news__people ORDER BY id')).toEqual([
      { id: 'p1', name: 'newer', _deleted: 'f' },
      { id: 'p2', name: 'newer', _deleted: 'f' },
      { id: 'p3', name: 'changed', _deleted: 'f' },
    ]);
  });

  it('holds texts that it cannot take as docs/publications.md says', async ({ folder }) => {
    await using mart = await open(folder);
    const more = '{"a":"\\u0000\\ud83d"}';
    store(mart.model, people(mart.model, 0), { id: '1', name: 'a\0b\uE000c\ud83d', more });
    await mart.publish();
    const undone = `replace(replace(name, U&'\\E000' || '0', ''), U&'\\E000' || '1', U&'\\E000')`;
    expect(await mart.ask(`SELECT name, more, ${undone} AS undone FROM news__people`)).toEqual([
      { name: 'a\uE0000b\uE0001c\uFFFD', more, undone: 'ab\uE000c\uFFFD' },
    ]);
    await expect(mart.ask(`SELECT more ->> 'a' FROM news__people`)).rejects.toThrow();
  });

  // Proves promise 20.5
  it('touches no table of another program, and no schema of a sink', async ({ folder }) => {
    await using mart = await open(folder);
    const { schema, ask, target } = mart;
    people(mart.model);
    await ask(`CREATE SCHEMA ${schema}`);
    await ask('CREATE TABLE news__people (mine text)');
    await mart.refused(/_published_tables does not list its table news__people/);
    await ask(`DROP SCHEMA ${schema} CASCADE`);
    await ask(`CREATE SCHEMA ${schema}; CREATE TABLE _publications (mine text)`);
    await expect(target.newest()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
    await ask('DROP TABLE _publications; CREATE TABLE _sync_meta (sink_id text)');
    await mart.refused(/a sink of connector-sync/);
  });

  it('records how fresh it is, also where an earlier version has made it', async ({ folder }) => {
    await using mart = await open(folder);
    await mart.publishPeople();
    await mart.ask('DROP TABLE _latest');
    const newest = await mart.target.newest();
    const checkedAt = '2026-03-01T10:00:00.000Z';
    expect(newest !== null && (await mart.target.tell({ ...newest, checkedAt }))).toBe(true);
    expect(await mart.target.newest()).toEqual({ ...newest, checkedAt });
  });

  it('leaves no connection where it can publish nothing', async ({ folder }) => {
    const database = schemaOf(folder);
    await client().query(`CREATE DATABASE ${database} TEMPLATE template0 ENCODING 'SQL_ASCII' LOCALE 'C'`);
    onTestFinished(async () => void (await client().query(`DROP DATABASE ${database} WITH (FORCE)`)));
    const connection = { ...server().connection, database };
    const target = openPostgresTarget({ ...placeOf(folder), connection }, tableHow);
    await expect(target.probe()).rejects.toThrow(`Create one with ENCODING 'UTF8'`);
    await target[Symbol.asyncDispose]();
    const left = `SELECT 1 FROM pg_stat_activity WHERE datname = '${database}'`;
    await expect.poll(async () => (await client().query(left)).rows).toEqual([]);
  });

  it('says what to do where one of its own tables was dropped', async ({ folder }) => {
    await using mart = await open(folder);
    await mart.publishPeople(1);
    for (const own of ['_published_tables', '_publications']) {
      await mart.ask(`ALTER TABLE ${own} RENAME TO away`);
      const says = `the table ${own} of its schema is gone. Restore that table from a backup, or name another schema.`;
      await mart.refused(new RegExp(says));
      await expect(mart.problems()).rejects.toThrow(says);
      await mart.ask(`ALTER TABLE away RENAME TO ${own}`);
    }
    await mart.publishPeople(2);
    expect(await mart.problems()).toEqual([]);
  });

  // Proves promise 20.5
  it('never shows a reader half a publication, also where a generation replaces another', async ({
    folder,
  }) => {
    await using mart = await open(folder);
    const { model } = mart;
    const rounds = isLong ? 200 : 12;
    const publish = async (round: number): Promise<void> => {
      const entity = round % 3 === 0 ? people(model, 0) : (model.entities.get('people') ?? people(model, 0));
      for (let id = 1; id <= 40; id += 1) store(model, entity, { id: `p${id}`, name: `round ${round}` });
      await mart.publish();
    };
    await publish(0);
    const over = new AbortController();
    const seen = new Set<string>();
    const read = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const states = await mart.ask(
          `SELECT name, count(*)::text AS rows, (SELECT max(number) FROM _publications)::text AS number
           FROM news__people GROUP BY name`,
        );
        const [state] = states;
        expect(states).toEqual([
          { name: `round ${Number(state?.['number']) - 1}`, rows: '40', number: state?.['number'] },
        ]);
        seen.add(String(state?.['number']));
      }
    };
    const reading = read();
    for (let round = 1; round <= rounds; round += 1) await publish(round);
    over.abort();
    await reading;
    expect(seen.size).toBeGreaterThan(rounds / 4);
  });

  it('is taken where the newest publication is another one than the manifest follows', async ({ folder }) => {
    await using mart = await open(folder);
    store(mart.model, await mart.publishPeople(), { id: 'p4' });
    const restored = await mart.publish({
      beforeCommit: async () =>
        void (await mart.ask(`UPDATE _publications SET manifest = (manifest::text || ' ')::json`)),
    });
    expect(restored).toBe('taken');
    expect(await mart.ask('SELECT id FROM news__people')).toHaveLength(3);
  });

  it('does not wait for the lock of another session for long, and says so', async ({ folder }) => {
    await using mart = await open(folder);
    const entity = await mart.publishPeople();
    addColumns(entity, { name: 'email', type: 'string' });
    store(mart.model, entity, { id: 'p1' });
    await mart.ask('BEGIN');
    await mart.ask('SELECT * FROM news__people');
    await mart.refused(/a lock of another session on a table/, 'TARGET_FAILED');
    await mart.ask('ROLLBACK');
    await mart.publish();
    expect((await mart.target.newest())?.manifest.publication).toBe(2);
  });

  // Proves promise 20.5
  it.for(['answer', 'request'] as const)(
    'knows whether it has published when the %s of COMMIT is lost',
    async (lost, { folder }) => {
      const proxy = await startPostgresProxy(server().port);
      onTestFinished(() => proxy.close());
      const hosts = [{ host: '127.0.0.1', port: proxy.port }];
      let isArmed = false;
      let cuts = 0;
      proxy.rule((): Passing => {
        let isAnswered = true;
        return {
          fromClient: (bytes) => {
            if (!isArmed || !isCommit(bytes) || cuts > 0) return bytes.length;
            cuts += 1;
            isAnswered = false;
            return lost === 'answer' ? bytes.length : 0;
          },
          fromServer: ({ length }) => (isAnswered ? length : 0),
        };
      });
      await using mart = await open(folder, 'mark', { connection: { ...server().connection, hosts } });
      store(mart.model, await mart.publishPeople(), { id: 'p4' });
      isArmed = true;
      const published = mart.publish();
      if (lost === 'answer') expect(await published).toBe('published');
      else await expect(published).rejects.toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
      expect(cuts).toBe(1);
      const newest = (await mart.target.newest())?.manifest.publication;
      expect(newest).toBe(lost === 'answer' ? 2 : 1);
      expect(await mart.ask('SELECT id FROM news__people')).toHaveLength(newest === 2 ? 4 : 3);
    },
  );
});

describe('a target in PostgreSQL that another program has changed', () => {
  // Proves promise 20.5
  it('reports it before a publication meets it, until a new generation replaces it', async ({ folder }) => {
    await using mart = await open(folder);
    const { ask, schema } = mart;
    await mart.publishPeople();
    await ask(`DELETE FROM news__people WHERE id = 'p1'`);
    expect(await mart.problems()).toEqual([
      'table news__people should have 3 rows and 0 deleted ones, and has 2 and 0',
    ]);
    await ask(`UPDATE _publications SET manifest = '{}'`);
    await expect(mart.problems()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
    await expect(mart.target.newest()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
    await ask(`DROP SCHEMA ${schema} CASCADE`);
    await mart.publish();
    await ask('DROP VIEW news__people_current');
    await ask('ALTER TABLE news__people ALTER COLUMN name TYPE varchar(99)');
    expect(await mart.problems()).toEqual([
      'table news__people has character varying in column name, which should be text',
    ]);
    await ask('ALTER TABLE news__people DROP COLUMN name, DROP COLUMN _deleted');
    expect(await mart.problems()).toContain('table news__people has lost its column name');
    await mart.publishPeople(1);
    await ask('DROP TABLE news__people CASCADE');
    expect(await mart.problems()).toEqual(['table news__people is gone']);
    await mart.publishPeople(2);
    expect(await ask('SELECT id FROM news__people')).toHaveLength(2);
    expect(await mart.problems()).toEqual([]);
    await ask('DELETE FROM _published_tables');
    expect(await mart.problems()).toEqual([
      '_published_tables does not list news__people, which was published',
    ]);
    await ask('DROP TABLE news__people CASCADE');
    await mart.publishPeople(1);
    expect(await mart.problems()).toEqual([]);
    await ask('DELETE FROM _publications');
    expect(await mart.problems()).toEqual(['_publications is empty, and there are tables of publications']);
    await mart.publish();
    expect(await mart.problems()).toEqual([]);
  });

  // Proves promise 20.1
  it('says what it has lost of what was published, and refuses a publication that continues it', async ({
    folder,
  }) => {
    await using world = openPublishWorld();
    await using mart = await open(folder);
    const { target } = mart;
    await world.run({ upserts: { 1: 'Ada', 2: 'Bob' } });
    await world.publish({}, target);
    // Nothing has changed: no row comes into any table.
    for (const [damage, says] of [
      [
        `DELETE FROM news__members WHERE id = '2'`,
        'news__members should have 2 rows and 0 deleted ones, and has 1 and 0',
      ],
      ['ALTER TABLE news__members DROP COLUMN name CASCADE', 'news__members has lost its column name'],
      ['DROP TABLE news__members CASCADE', 'news__members is gone'],
    ] as const) {
      await mart.ask(damage);
      await expect(world.publish({}, target)).rejects.toMatchObject({
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringMatching(`${says}.* connector-sync publish lake --new-generation$`),
      });
      await world.publish({ isNewGenerationAsked: true }, target);
      expect(await mart.problems()).toEqual([]);
      expect(await world.publish({}, target)).toMatchObject({ kind: 'unchanged' });
    }
  });

  /** A trigger of another program that keeps rows as they are. */
  async function keepRows({ ask }: Mart, events: string): Promise<void> {
    await ask(`CREATE FUNCTION no_row() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`);
    await ask(`CREATE TRIGGER kept BEFORE ${events} ON news__people FOR EACH ROW EXECUTE FUNCTION no_row()`);
  }

  it('keeps no row of an earlier generation because of a trigger: nothing is published', async ({
    folder,
  }) => {
    await using mart = await open(folder);
    await mart.publishPeople();
    await keepRows(mart, 'DELETE');
    people(mart.model, 1);
    await mart.refused(/news__people kept rows that were deleted\. Remove the trigger/);
    await mart.ask('DROP TRIGGER kept ON news__people');
    await mart.publish();
    expect(await mart.ask('SELECT id FROM news__people')).toEqual([{ id: 'p1' }]);
  });

  // Proves promise 20.5
  it.for(['mark', 'remove'] as const)(
    'publishes nothing where a trigger keeps rows out of its table (%s)',
    async (deletes, { folder }) => {
      await using mart = await open(folder, deletes);
      const entity = await mart.publishPeople();
      const rows = 'SELECT * FROM news__people ORDER BY id';
      const before = await mart.ask(rows);
      await keepRows(mart, 'INSERT OR DELETE');
      remove(mart.model, entity, 'p1');
      await mart.refused(/its table news__people took 0 of 1 changed rows.*trigger/);
      expect(await mart.ask(rows)).toEqual(before);
      await mart.ask('DROP TRIGGER kept ON news__people');
      await mart.publish();
      expect(await mart.problems()).toEqual([]);
    },
  );

  it('lets no index of others make one row out of two', async ({ folder }) => {
    await using mart = await open(folder);
    const entity = await mart.publishPeople(1);
    await mart.ask(
      `CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
       CREATE UNIQUE INDEX ON news__people (id COLLATE ci)`,
    );
    store(mart.model, entity, { id: 'P1', name: 'Bob' });
    await mart.refused(/23505.*If a constraint or an index was added.* drop it/, 'TARGET_FAILED');
    expect(await mart.ask('SELECT id, name FROM news__people')).toEqual([{ id: 'p1', name: 'Ada' }]);
  });
});

const lostKey = 'has lost the unique index on its key';

/** Refused until a new generation comes, which makes everything good. */
async function expectHealed(mart: Mart, says: string, again: () => void): Promise<void> {
  await mart.refused(
    new RegExp(`its table news__people ${says}. Undo that, or publish with --new-generation.`),
  );
  again();
  await mart.publish();
  expect(await mart.problems()).toEqual([]);
}

describe('a table in PostgreSQL that is not as it was made', () => {
  it.for<[what: string, sql: string, says: string]>([
    ['its primary key', 'DROP CONSTRAINT news__people_pkey', lostKey],
    [
      'its key for one of some rows',
      'DROP CONSTRAINT news__people_pkey; CREATE UNIQUE INDEX ON news__people (id) WHERE NOT _deleted',
      lostKey,
    ],
    [
      'its key for one with a column more',
      'DROP CONSTRAINT news__people_pkey, ADD UNIQUE (id, _seq)',
      lostKey,
    ],
    [
      'its key for one that is checked later',
      'DROP CONSTRAINT news__people_pkey, ADD UNIQUE (id) DEFERRABLE',
      lostKey,
    ],
    ['a column of its own', 'DROP COLUMN _extra', 'has lost its column _extra'],
    [
      'the mark of deleted rows',
      'DROP COLUMN _deleted CASCADE, ADD COLUMN _deleted text',
      'has text in column _deleted, which should be boolean',
    ],
    [
      'a column for a computed one',
      "DROP COLUMN name CASCADE, ADD COLUMN name text GENERATED ALWAYS AS ('x') STORED",
      'has generated text in column name, which should be text',
    ],
  ])(
    'is recreated by a new generation after another program dropped %s',
    async ([, sql, says], { folder }) => {
      await using mart = await open(folder);
      const { model } = mart;
      const entity = await mart.publishPeople();
      await mart.ask(`ALTER TABLE news__people ${sql}`);
      expect(await mart.problems()).toContain(`table news__people ${says}`);
      store(model, entity, { id: 'p1', name: 'Eve' });
      await expectHealed(mart, says, () => void people(model, 2));
      expect(await mart.ask('SELECT id, name FROM news__people WHERE NOT _deleted ORDER BY id')).toEqual([
        { id: 'p1', name: 'Ada' },
        { id: 'p2', name: 'Ada' },
      ]);
      remove(model, people(model, 2), 'p2');
      await mart.publish();
      expect(await mart.problems()).toEqual([]);
    },
  );

  it('is not published where a text in a key is too long for its index', async ({ folder }) => {
    await using mart = await open(folder);
    // Without patterns, which would be compressed.
    const long = Array.from({ length: 400 }, () => randomUUID()).join('');
    const others = addEntity(mart.model, 'others', [{ name: 'id', type: 'string' }]);
    const entity = await mart.publishPeople();
    store(mart.model, others, { id: 'o1' });
    store(mart.model, entity, { id: long });
    await mart.refused(/a key that is too long for the index of news__people .*to one of another type/);
    expect(await mart.ask('SELECT id FROM news__others')).toEqual([]);
    expect((await mart.target.newest())?.manifest.publication).toBe(1);
    expect(await mart.problems()).toEqual([]);
    entity.rows.delete(keyTextOf([long]));
    await mart.publish();
    expect(await mart.ask('SELECT id FROM news__others')).toEqual([{ id: 'o1' }]);
  });

  it('keeps a column of others that the source has later, until a new generation replaces it', async ({
    folder,
  }) => {
    await using mart = await open(folder);
    const entity = await mart.publishPeople(1);
    await mart.ask('ALTER TABLE news__people ADD COLUMN score bigint; UPDATE news__people SET score = 7');
    entity.columns = [...entity.columns, { name: 'score', type: 'integer' }];
    store(mart.model, entity, { id: 'p2', score: 1 });
    await mart.refused(/has a column score that others have added.*--new-generation/);
    expect(await mart.ask('SELECT id, score FROM news__people')).toEqual([{ id: 'p1', score: '7' }]);
    store(mart.model, addEntity(mart.model, 'people', entity.columns), { id: 'p2', score: 1 });
    await mart.publish();
    expect(await mart.ask('SELECT id, score FROM news__people')).toEqual([{ id: 'p2', score: '1' }]);
    expect(await mart.problems()).toEqual([]);
  });

  it('says what to do where a view stands in its place, or a constraint keeps rows out', async ({
    folder,
  }) => {
    await using mart = await open(folder);
    const entity = await mart.publishPeople();
    await mart.ask(`ALTER TABLE news__people ADD COLUMN mine text NOT NULL DEFAULT ''`);
    await mart.ask('ALTER TABLE news__people ALTER COLUMN mine DROP DEFAULT');
    store(mart.model, entity, { id: 'p4' });
    await mart.refused(/column "mine".*If a constraint.* was added .* drop it/, 'TARGET_FAILED');
    await mart.ask('ALTER TABLE news__people RENAME TO away; CREATE VIEW news__people AS SELECT * FROM away');
    people(mart.model, 2);
    await mart.refused(
      /"news__people" is not a table.*Rename or drop what stands in its place/,
      'TARGET_FAILED',
    );
    await mart.ask('DROP VIEW news__people');
    await mart.publish();
    expect(await mart.problems()).toEqual([]);
  });
});

describe('a column that left with a generation, in PostgreSQL', () => {
  it.for(['changes', 'a generation'] as const)(
    'comes back with another type in %s',
    async (way, { folder }) => {
      await using mart = await open(folder);
      const { model, ask, schema } = mart;
      const scored = (...score: readonly ('string' | 'integer')[]) =>
        addEntity(model, 'people', [
          { name: 'id', type: 'string' },
          ...score.map((type) => ({ name: 'score', type })),
          { name: 'name', type: 'string' },
        ]);
      store(model, scored('string'), { id: 'p1', score: 'x', name: 'Ada' });
      await mart.publish();
      await ask(`CREATE ROLE scorer_${schema}; GRANT SELECT ON ${schema}.news__people TO scorer_${schema}`);
      await ask('CREATE VIEW mine AS SELECT name FROM news__people WHERE NOT _deleted');
      let entity = scored();
      store(model, entity, { id: 'p1', name: 'Ada' });
      store(model, entity, { id: 'p2', name: 'Eve' });
      await mart.publish();
      expect(await ask('SELECT id, score FROM news__people ORDER BY id')).toEqual([
        { id: 'p1', score: null },
        { id: 'p2', score: null },
      ]);
      if (way === 'changes') addColumns(entity, { name: 'score', type: 'integer' });
      else {
        entity = scored('integer');
        store(model, entity, { id: 'p2', name: 'Eve' });
      }
      store(model, entity, { id: 'p1', score: 5n, name: 'Ada' });
      await mart.publish();
      expect(await ask('SELECT id, name, score + 1 AS next FROM news__people ORDER BY id')).toEqual([
        { id: 'p1', name: 'Ada', next: '6' },
        { id: 'p2', name: 'Eve', next: null },
      ]);
      expect(await ask('SELECT * FROM mine')).toHaveLength(2);
      const rights = `SELECT has_table_privilege('scorer_${schema}', 'news__people', 'SELECT') AS may`;
      expect(await ask(rights)).toEqual([{ may: 't' }]);
      expect(await mart.problems()).toEqual([]);
    },
  );
});

it('counts rows of a table in PostgreSQL that are marked, and later removed, as they are', async ({
  folder,
}) => {
  const model = emptyModel();
  const entity = people(model, 6);
  const expectIds = async (deletes: 'mark' | 'remove', ids: readonly string[]): Promise<void> => {
    await using mart = await open(folder, deletes, {}, model);
    await mart.publish();
    expect(await mart.problems()).toEqual([]);
    const rows = await mart.ask('SELECT id, _deleted FROM news__people ORDER BY id');
    expect(rows.map((row) => `${row['id']}${row['_deleted'] === 't' ? ' deleted' : ''}`)).toEqual(ids);
  };
  for (const id of ['p1', 'p2', 'p3', 'p4']) remove(model, entity, id);
  await expectIds('mark', ['p1 deleted', 'p2 deleted', 'p3 deleted', 'p4 deleted', 'p5', 'p6']);
  // Back, deleted once more, come and gone, and known to be there until now.
  store(model, entity, { id: 'p1' });
  remove(model, entity, 'p2');
  store(model, entity, { id: 'p7' });
  remove(model, entity, 'p7');
  remove(model, entity, 'p5');
  await expectIds('remove', ['p1', 'p3 deleted', 'p4 deleted', 'p6']);
  for (const id of ['p1', 'p3']) remove(model, entity, id);
  store(model, entity, { id: 'p4' });
  await expectIds('remove', ['p4', 'p6']);
  remove(model, entity, 'p4');
  store(model, entity, { id: 'p1' });
  await expectIds('mark', ['p1', 'p4 deleted', 'p6']);
  store(model, entity, { id: 'p4' });
  await expectIds('mark', ['p1', 'p4', 'p6']);
});
