import type { JsonObject } from '../../core/json.ts';
import { diceFor } from '../dice.ts';
import { editedNow } from './edit-work.ts';
import { notesKind, type Database } from './notes-plan.ts';
import { lostOf, takeLost, type NotesRevision, type NotesWork } from './notes-work.ts';
import { dataSourceRecord } from './page-records.ts';
import { richText } from './rich-text.ts';

const firstNewIndex = 1_000;

/** In turns of three, an empty data source is added, put into the trash and restored; every revision one is edited. */
export function reviseDataSources(work: NotesWork, { revision, clock }: NotesRevision): void {
  const shown = [...work.dataSources].flatMap(([id, { in_trash }]) => (in_trash === true ? [] : [id]));
  const edited = shown[revision % Math.max(1, shown.length)];
  if (edited !== undefined) {
    edit(work, edited, clock.next(), { description: richText(`As agreed in revision ${revision}`) });
  }
  if (revision % 3 === 1) {
    const id = addDataSource(work, revision, clock.next());
    lostOf(work, 'data source').push({ revision, id });
  } else if (revision % 3 === 2) {
    for (const { id } of lostOf(work, 'data source')) setTrashed(work, id, clock.next(), true);
  } else {
    const lost = takeLost(work, 'data source', revision);
    if (lost !== undefined) setTrashed(work, lost.id, clock.next(), false);
  }
}

function edit(work: NotesWork, id: string, at: number, change: JsonObject): void {
  const record = work.dataSources.get(id);
  if (record !== undefined) work.dataSources.set(id, { ...record, ...change, ...editedNow(work, at) });
}

function setTrashed(work: NotesWork, id: string, at: number, isTrashed: boolean): void {
  edit(work, id, at, { archived: isTrashed, in_trash: isTrashed, is_archived: isTrashed });
}

function addDataSource(work: NotesWork, revision: number, at: number): string {
  const index = firstNewIndex + revision;
  const dice = diceFor(work.plan.seed, notesKind.database, index);
  const database: Database = {
    index,
    id: dice.uuid(),
    dataSourceId: dice.uuid(),
    title: `Table of revision ${revision}`,
    hostIndex: null,
    createdAt: at,
    editedAt: at,
  };
  work.dataSources.set(database.dataSourceId, dataSourceRecord(work.plan, database));
  return database.dataSourceId;
}
