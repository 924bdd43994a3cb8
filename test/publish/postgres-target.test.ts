import { inspect } from 'node:util';
import { describe, expect, onTestFinished } from 'vitest';
import { Secret } from '../../src/core/secret.ts';
import { openPostgresTarget, type PostgresPlace } from '../../src/publish/postgres/postgres-target.ts';
import { targetContract, untilEnd, type TargetKind } from '../contracts/target-contract.ts';
import { isCommit, startPostgresProxy, type Passing } from '../support/postgres-proxy.ts';
import {
  addColumns,
  addEntity,
  emptyModel,
  publishModel,
  remove,
  store,
  tableOf,
} from '../support/publish/stored-model.ts';
import { postgresTableRows } from '../support/publish/read-tables.ts';
import { it } from '../support/it.ts';
import { people, useMart } from '../support/publish/mart.ts';
import { isLong } from '../support/trials.ts';

const { server, client, placeOf, schemaOf, ask } = useMart();

function kindOf(deletes: PostgresPlace['deletes']): TargetKind {
  return {
    open: async (folder) => openPostgresTarget(placeOf(folder, deletes), untilEnd),
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
  it('marks deleted rows, which keep their last values, and leaves them out of the view', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    remove(model, entity, 'p2');
    await publishModel(target, model);
    const marked = await ask(
      `SELECT id, name, _seq FROM ${schema}.news__people WHERE _deleted AND _deleted_at = _changed_at`,
    );
    expect(marked).toEqual([{ id: 'p2', name: 'Ada', _seq: '4' }]);
    expect(await ask(`SELECT * FROM ${schema}.news__people_current ORDER BY id`)).toEqual([
      { id: 'p1', name: 'Ada' },
      { id: 'p3', name: 'Ada' },
    ]);
    addColumns(entity, { name: 'email', type: 'string' });
    store(model, entity, { id: 'p1', email: 'e' });
    await publishModel(target, model);
    expect((await ask(`SELECT * FROM ${schema}.news__people_current ORDER BY id`))[0]).toEqual({
      id: 'p1',
      name: null,
      email: 'e',
    });
  });

  it('removes deleted rows where it is asked to, those of the first publication too', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder, 'remove'), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    remove(model, entity, 'p1');
    await publishModel(target, model);
    remove(model, entity, 'p2');
    await publishModel(target, model);
    expect(await ask(`SELECT id, _deleted FROM ${schemaOf(folder)}.news__people`)).toEqual([
      { id: 'p3', _deleted: 'f' },
    ]);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  it('keeps views and rights of others through a new generation, and rights where the table is recreated', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model);
    await publishModel(target, model);
    await ask(`CREATE ROLE analyst_${schema}`);
    await ask(`GRANT SELECT ON ${schema}.news__people, ${schema}.news__people_current TO analyst_${schema}`);
    await ask(`CREATE VIEW ${schema}.mine AS SELECT name FROM ${schema}.news__people WHERE NOT _deleted`);
    people(model, 2);
    await publishModel(target, model);
    expect(await ask(`SELECT * FROM ${schema}.mine`)).toHaveLength(2);
    const other = addEntity(model, 'people', [{ name: 'id', type: 'integer' }]);
    store(model, other, { id: 1 });
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringMatching(/views or other objects.*Drop them, publish again/),
    });
    // Nothing of it is there: readers still see what was.
    expect(await ask(`SELECT * FROM ${schema}.mine`)).toHaveLength(2);
    await ask(`DROP VIEW ${schema}.mine`);
    await publishModel(target, model);
    const rights = await ask(
      `SELECT table_name FROM information_schema.role_table_grants WHERE grantee = 'analyst_${schema}' ORDER BY 1`,
    );
    expect(rights).toEqual([{ table_name: 'news__people' }, { table_name: 'news__people_current' }]);
  });

  it('keeps a row that is newer than a change of the same key', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    const table = `${schemaOf(folder)}.news__people`;
    await ask(`UPDATE ${table} SET _seq = 100, name = 'newer' WHERE id IN ('p1', 'p2')`);
    store(model, entity, { id: 'p1', name: 'older' });
    remove(model, entity, 'p2');
    store(model, entity, { id: 'p3', name: 'changed' });
    await publishModel(target, model);
    expect(await ask(`SELECT id, name, _deleted FROM ${table} ORDER BY id`)).toEqual([
      { id: 'p1', name: 'newer', _deleted: 'f' },
      { id: 'p2', name: 'newer', _deleted: 'f' },
      { id: 'p3', name: 'changed', _deleted: 'f' },
    ]);
  });

  it('keeps one row where keys differ in lone surrogates alone: the newest', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model, 0);
    store(model, entity, { id: 'x\ud800', name: 'first' });
    store(model, entity, { id: 'x\ud801', name: 'second' });
    await publishModel(target, model);
    expect(await ask(`SELECT name FROM ${schemaOf(folder)}.news__people`)).toEqual([{ name: 'second' }]);
    remove(model, entity, 'x\ud801');
    store(model, entity, { id: 'x\ud800', name: 'third' });
    await publishModel(target, model);
    expect(await ask(`SELECT name FROM ${schemaOf(folder)}.news__people`)).toEqual([{ name: 'third' }]);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  it('holds texts that it cannot take as docs/publications.md says', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = addEntity(model, 'people', [
      { name: 'id', type: 'string' },
      { name: 'name', type: 'string' },
      { name: 'more', type: 'object' },
    ]);
    store(model, entity, { id: '1', name: 'a\0b\uE000c\ud83d', more: '{"a":"\\u0000\\ud83d"}' });
    await publishModel(target, model);
    const table = `${schemaOf(folder)}.news__people`;
    const undone = `replace(replace(name, U&'\\E000' || '0', ''), U&'\\E000' || '1', U&'\\E000')`;
    expect(await ask(`SELECT name, more, ${undone} AS undone FROM ${table}`)).toEqual([
      { name: 'a\uE0000b\uE0001c\uFFFD', more: '{"a":"\\u0000\\ud83d"}', undone: 'ab\uE000c\uFFFD' },
    ]);
    await expect(ask(`SELECT more ->> 'a' FROM ${table}`)).rejects.toThrow();
  });

  // Proves promise 20.5
  it('touches no table of another program, and no schema of a sink', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model);
    await ask(`CREATE SCHEMA ${schema}`);
    await ask(`CREATE TABLE ${schema}.news__people (mine text)`);
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringContaining('news__people that _published_tables does not list'),
    });
    await ask(`DROP SCHEMA ${schema} CASCADE`);
    await ask(`CREATE SCHEMA ${schema}; CREATE TABLE ${schema}._publications (mine text)`);
    await expect(target.newest()).rejects.toMatchObject({ code: 'TARGET_INCOMPATIBLE' });
    await ask(`DROP TABLE ${schema}._publications; CREATE TABLE ${schema}._sync_meta (sink_id text)`);
    await expect(target.begin(1)).rejects.toMatchObject({
      code: 'TARGET_INCOMPATIBLE',
      message: expect.stringContaining('a sink of connector-sync'),
    });
  });

  it('says what to do where one of its own tables was dropped', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model, 1);
    await publishModel(target, model);
    for (const own of ['_published_tables', '_publications']) {
      await ask(`ALTER TABLE ${schema}.${own} RENAME TO away`);
      const problem = {
        code: 'TARGET_INCOMPATIBLE',
        message: expect.stringContaining(
          `the table ${own} of its schema is gone. Restore that table from a backup, or name another schema.`,
        ),
      };
      await expect(target.newest()).rejects.toMatchObject(problem);
      await expect(target.check(untilEnd)).rejects.toMatchObject(problem);
      await ask(`ALTER TABLE ${schema}.away RENAME TO ${own}`);
    }
    people(model, 2);
    await publishModel(target, model);
    expect((await target.check(untilEnd)).problems).toEqual([]);
  });

  // Proves promise 20.5
  it('never shows a reader half a publication, also where a generation replaces another', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const rounds = isLong ? 200 : 12;
    const publish = async (round: number): Promise<void> => {
      const entity = round % 3 === 0 ? people(model, 0) : (model.entities.get('people') ?? people(model, 0));
      for (let id = 1; id <= 40; id += 1) store(model, entity, { id: `p${id}`, name: `round ${round}` });
      await publishModel(target, model);
    };
    await publish(0);
    const over = new AbortController();
    const seen = new Set<string>();
    const read = async (): Promise<void> => {
      while (!over.signal.aborted) {
        const states = await ask(
          `SELECT name, count(*)::text AS rows, (SELECT max(number) FROM ${schema}._publications)::text AS number
           FROM ${schema}.news__people GROUP BY name`,
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

  // Proves promise 20.5
  it('shows a transaction that began before a new generation the rows of before, whenever it looks', async ({
    folder,
  }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    people(model, 3);
    await publishModel(target, model);
    await ask('BEGIN ISOLATION LEVEL REPEATABLE READ');
    expect(await ask(`SELECT number FROM ${schema}._publications`)).toEqual([{ number: '1' }]);
    people(model, 1);
    await publishModel(target, model);
    const before = await ask(`SELECT id FROM ${schema}.news__people_current`);
    await ask('ROLLBACK');
    expect(before).toHaveLength(3);
    expect(await ask(`SELECT id FROM ${schema}.news__people_current`)).toHaveLength(1);
  });

  it('is taken where the newest publication is another one than the manifest follows', async ({ folder }) => {
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    store(model, entity, { id: 'p4' });
    const restored = await publishModel(target, model, {
      beforeCommit: async () =>
        void (await ask(`UPDATE ${schemaOf(folder)}._publications SET sha256 = 'of another manifest'`)),
    });
    expect(restored).toBe('taken');
    expect(await ask(`SELECT id FROM ${schemaOf(folder)}.news__people`)).toHaveLength(3);
  });

  it('says where it cannot reach a server, and never the password', async ({ folder }) => {
    const place = placeOf(folder);
    const hosts = [{ host: '127.0.0.1', port: 1 }];
    const connection = { ...place.connection, hosts, password: new Secret('hunter2-hunter2') };
    await using target = openPostgresTarget({ ...place, connection }, untilEnd);
    const works = [
      () => target.newest(),
      () => target.begin(1),
      () => target.probe(),
      () => target.check(untilEnd),
    ];
    for (const work of works) {
      const error: unknown = await work().catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
      expect(`${inspect(error, { depth: 9 })}${JSON.stringify(error)}`).not.toContain('hunter2');
      expect(String(error)).toContain('127.0.0.1:1/postgres/mart_');
    }
  });

  it('does not wait for the lock of another session for long, and says so', async ({ folder }) => {
    const schema = schemaOf(folder);
    await using target = openPostgresTarget(placeOf(folder), untilEnd);
    const model = emptyModel();
    const entity = people(model);
    await publishModel(target, model);
    addColumns(entity, { name: 'email', type: 'string' });
    store(model, entity, { id: 'p1' });
    await ask('BEGIN');
    await ask(`SELECT * FROM ${schema}.news__people`);
    await expect(publishModel(target, model)).rejects.toMatchObject({
      code: 'TARGET_FAILED',
      recovery: 'retry',
      message: expect.stringContaining('lock of another session'),
    });
    await ask('ROLLBACK');
    await publishModel(target, model);
    expect((await target.newest())?.manifest.publication).toBe(2);
  });

  // Proves promise 20.5
  it.for(['answer', 'request'] as const)(
    'knows whether it has published when the %s of COMMIT is lost',
    async (lost, { folder }) => {
      const proxy = await startPostgresProxy(server().port);
      onTestFinished(() => proxy.close());
      const place = placeOf(folder);
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
      await using target = openPostgresTarget(
        { ...place, connection: { ...place.connection, hosts } },
        untilEnd,
      );
      const model = emptyModel();
      const entity = people(model);
      await publishModel(target, model);
      store(model, entity, { id: 'p4' });
      isArmed = true;
      const published = publishModel(target, model);
      if (lost === 'answer') expect(await published).toBe('published');
      else await expect(published).rejects.toMatchObject({ code: 'TARGET_FAILED', recovery: 'retry' });
      expect(cuts).toBe(1);
      const newest = (await target.newest())?.manifest.publication;
      expect(newest).toBe(lost === 'answer' ? 2 : 1);
      expect(await ask(`SELECT id FROM ${schemaOf(folder)}.news__people`)).toHaveLength(newest === 2 ? 4 : 3);
    },
  );
});
