import type { JsonObject, JsonValue } from '../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import { notesTime } from '../writing.ts';
import { notesKind, type Database, type NotesPlan, type Page } from './notes-plan.ts';
import { hostedFile, richText } from './rich-text.ts';

const optionNames = ['Standup', 'Retro', '1:1', 'Планирование'] as const;
const optionColors = ['green', 'blue', 'default', 'pink'];

function optionsOf(seed: number, database: Database) {
  const dice = diceFor(seed, notesKind.database, database.index, 1);
  const option = (position: number) => ({
    id: dice.uuid(),
    name: optionNames[position] ?? optionNames[0],
    color: optionColors[position] ?? 'default',
  });
  return [option(0), option(1), option(2), option(3)] as const;
}

/** The properties of every database's pages, by name: id and type. */
const propertyTypes = {
  'Last Edited Time': ['0AiB', 'last_edited_time'],
  'Created By': ['F%5D)%3F', 'created_by'],
  Type: ['_%7B%5C7', 'select'],
  Tags: ['tGs%3A', 'multi_select'],
  Participants: ['b%3AeA', 'people'],
  Effort: ['eFrt', 'number'],
  Due: ['dUe%5B', 'date'],
  Done: ['d0nE', 'checkbox'],
  Remarks: ['rEm', 'rich_text'],
  Attachments: ['aTt', 'files'],
  Name: ['title', 'title'],
} as const;

/** What a database asks of its pages: name -> type and settings. */
export function propertySchemas(seed: number, database: Database): JsonObject {
  const options = optionsOf(seed, database).map((option) => ({ ...option }));
  const settings: JsonObject = {
    select: { options },
    multi_select: { options },
    number: { format: 'number' },
  };
  return Object.fromEntries(
    Object.entries(propertyTypes).map(([name, [id, type]]) => [
      name,
      { id, name, type, [type]: settings[type] ?? {} },
    ]),
  );
}

/** The properties of a page: those of its database, or its title alone. */
export function pageProperties(plan: NotesPlan, page: Page): JsonObject {
  const title = richText(page.title);
  if (page.place.kind !== 'database') return { title: { id: 'title', type: 'title', title } };
  const dice = diceFor(plan.seed, notesKind.page, page.index, 3);
  const options = optionsOf(plan.seed, page.place.database);
  const selected = dice.chance(80) ? { ...dice.pick(options) } : null;
  const effort = dice.chance(70) ? dice.below(400) / 8 : null;
  const values: Readonly<Record<keyof typeof propertyTypes, JsonValue>> = {
    'Last Edited Time': notesTime(page.editedAt),
    'Created By': { object: 'user', id: page.creatorId },
    Type: selected,
    Tags: dice.chance(40) ? [{ ...options[1] }] : [],
    Participants: participants(plan, dice),
    Effort: page.effort ?? effort,
    Due: dueDate(page, dice),
    Done: dice.chance(50),
    Remarks: richText(dice.pick(['', 'später', 'OK 👍'])),
    Attachments: dice.chance(20) ? [attachment(dice)] : [],
    Name: title,
  };
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => {
      const [id, type] = propertyTypes[name as keyof typeof propertyTypes];
      return [name, { id, type, [type]: value }];
    }),
  );
}

function participants(plan: NotesPlan, dice: Dice): readonly JsonObject[] {
  return Array.from({ length: dice.below(3) }, () => ({ object: 'user', id: dice.pick(plan.userIds) }));
}

function dueDate(page: Page, dice: Dice): JsonObject | null {
  if (dice.chance(40)) return null;
  return {
    start: notesTime(page.createdAt + dice.below(90) * 86_400_000).slice(0, 10),
    end: null,
    time_zone: null,
  };
}

function attachment(dice: Dice): JsonObject {
  const file = hostedFile(`${dice.hex(8)}/protokoll.pdf`, dice.hex(16));
  return { name: 'Protokoll.pdf', type: 'file', file };
}
