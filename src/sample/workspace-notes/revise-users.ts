import { diceFor } from '../dice.ts';
import { personAt } from '../people.ts';
import { textOf } from '../text-of.ts';
import { notesKind } from './notes-plan.ts';
import { lostOf, takeLost, type NotesRevision, type NotesWork } from './notes-work.ts';

const firstNewIndex = 1_000;

/** In turns of three, a user joins, leaves and comes back; every revision one takes another name. */
export function reviseUsers(work: NotesWork, { revision }: NotesRevision): void {
  const shown = [...work.users].filter(([id]) => !work.gone.has(id));
  const [id, renamed] = shown[revision % shown.length] ?? [];
  if (id !== undefined && renamed !== undefined) {
    const [name = ''] = textOf(renamed['name']).split(' (since');
    work.users.set(id, { ...renamed, name: `${name} (since ${revision})` });
  }
  switch (revision % 3) {
    case 1: {
      const joined = addUser(work, firstNewIndex + revision);
      lostOf(work, 'user').push({ revision, id: joined });
      return;
    }
    case 2:
      for (const { id: leaving } of lostOf(work, 'user')) work.gone.add(leaving);
      return;
    default:
      work.gone.delete(takeLost(work, 'user', revision)?.id ?? '');
  }
}

function addUser(work: NotesWork, index: number): string {
  const { seed } = work.plan;
  const id = diceFor(seed, notesKind.user, index).uuid();
  const { first, last, email } = personAt(seed, 5_000_000 + index);
  work.users.set(id, {
    object: 'user',
    id,
    name: `${first} ${last}`.trim(),
    avatar_url: null,
    type: 'person',
    person: { email },
  });
  return id;
}
