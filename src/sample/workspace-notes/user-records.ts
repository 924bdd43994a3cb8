import type { JsonObject } from '../../core/json.ts';
import { personAt } from '../people.ts';
import type { NotesPlan } from './notes-plan.ts';

/** People, some without a picture, one whose address the integration may not see, and bots. */
export function userRecords(plan: NotesPlan): readonly JsonObject[] {
  return plan.userIds.map((id, index) => {
    const person = personAt(plan.seed, 5_000_000 + index);
    const isBot = index % 12 === 3;
    const record = {
      object: 'user',
      id,
      name: isBot ? `Robot ${index}` : `${person.first} ${person.last}`.trim(),
      avatar_url: index % 3 === 1 ? null : `https://static.example.test/${6_246_757 + index}.png`,
    };
    if (!isBot) return { ...record, type: 'person', person: index === 2 ? {} : { email: person.email } };
    return {
      ...record,
      type: 'bot',
      bot: { owner: botOwner(plan, index), workspace_name: 'Example workspace' },
    };
  });
}

function botOwner(plan: NotesPlan, index: number): JsonObject {
  if (index === 3) return { type: 'workspace', workspace: true };
  return {
    type: 'user',
    user: {
      object: 'user',
      id: plan.userIds[0],
      name: 'Ada Example',
      avatar_url: 'https://static.example.test/6246757.png',
      type: 'person',
      person: { email: 'ada@example.test' },
    },
  };
}
