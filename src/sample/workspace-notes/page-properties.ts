import type { JsonObject } from '../../core/json.ts';
import { diceFor, type Dice } from '../dice.ts';
import { notesTime } from '../writing.ts';
import { notesKind, type Database, type NotesPlan, type Page } from './notes-plan.ts';
import { richText } from './rich-text.ts';

const optionNames = ['Standup', 'Retro', '1:1', 'Планирование'] as const;
const optionColors = ['green', 'blue', 'default', 'pink'];

interface Option {
  readonly id: string;
  readonly name: string;
  readonly color: string;
}

function optionsOf(seed: number, database: Database): readonly [Option, ...Option[]] {
  const dice = diceFor(seed, notesKind.database, database.index, 1);
  const option = (position: number): Option => ({
    id: dice.uuid(),
    name: optionNames[position] ?? optionNames[0],
    color: optionColors[position] ?? 'default',
  });
  return [option(0), option(1), option(2), option(3)];
}

/** What a database asks of its pages: name -> type and settings. */
export function propertySchemas(seed: number, database: Database): JsonObject {
  const options = optionsOf(seed, database).map((option) => ({ ...option }));
  return {
    'Last Edited Time': {
      id: '0AiB',
      name: 'Last Edited Time',
      type: 'last_edited_time',
      last_edited_time: {},
    },
    'Created By': { id: 'F%5D)%3F', name: 'Created By', type: 'created_by', created_by: {} },
    Type: { id: '_%7B%5C7', name: 'Type', type: 'select', select: { options } },
    Tags: { id: 'tGs%3A', name: 'Tags', type: 'multi_select', multi_select: { options } },
    Participants: { id: 'b%3AeA', name: 'Participants', type: 'people', people: {} },
    Effort: { id: 'eFrt', name: 'Effort', type: 'number', number: { format: 'number' } },
    Due: { id: 'dUe%5B', name: 'Due', type: 'date', date: {} },
    Done: { id: 'd0nE', name: 'Done', type: 'checkbox', checkbox: {} },
    Remarks: { id: 'rEm', name: 'Remarks', type: 'rich_text', rich_text: {} },
    Attachments: { id: 'aTt', name: 'Attachments', type: 'files', files: {} },
    Name: { id: 'title', name: 'Name', type: 'title', title: {} },
  };
}

/** The properties of a page: those of its database, or its title alone. */
export function pageProperties(plan: NotesPlan, page: Page): JsonObject {
  const title = richText(page.title);
  if (page.place.kind !== 'database') return { title: { id: 'title', type: 'title', title } };
  const dice = diceFor(plan.seed, notesKind.page, page.index, 3);
  const options = optionsOf(plan.seed, page.place.database);
  const selected = dice.chance(80) ? { ...dice.pick(options) } : null;
  const effort = dice.chance(70) ? dice.below(400) / 8 : null;
  return {
    'Last Edited Time': {
      id: '0AiB',
      type: 'last_edited_time',
      last_edited_time: notesTime(page.editedAt),
    },
    'Created By': {
      id: 'F%5D)%3F',
      type: 'created_by',
      created_by: { object: 'user', id: page.creatorId },
    },
    Type: { id: '_%7B%5C7', type: 'select', select: selected },
    Tags: { id: 'tGs%3A', type: 'multi_select', multi_select: dice.chance(40) ? [{ ...options[1] }] : [] },
    Participants: { id: 'b%3AeA', type: 'people', people: participants(plan, dice) },
    Effort: { id: 'eFrt', type: 'number', number: page.effort ?? effort },
    Due: { id: 'dUe%5B', type: 'date', date: dueDate(page, dice) },
    Done: { id: 'd0nE', type: 'checkbox', checkbox: dice.chance(50) },
    Remarks: { id: 'rEm', type: 'rich_text', rich_text: richText(dice.pick(['', 'später', 'OK 👍'])) },
    Attachments: { id: 'aTt', type: 'files', files: dice.chance(20) ? [attachment(dice)] : [] },
    Name: { id: 'title', type: 'title', title },
  };
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
  return {
    name: 'Protokoll.pdf',
    type: 'file',
    file: {
      url: `https://files.example.test/${dice.hex(8)}/protokoll.pdf?signature=${dice.hex(16)}`,
      expiry_time: '2024-03-01T10:00:00.000Z',
    },
  };
}
