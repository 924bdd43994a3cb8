import type { JsonValue } from '../../core/json.ts';

type Step = { readonly text: string } | { readonly value: JsonValue };

/** JSON text of any value, however deep: an explicit list of steps takes the place of recursion. */
export function wholeJson(root: JsonValue): string {
  const parts: string[] = [];
  const steps: Step[] = [{ value: root }];
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    if ('text' in step) parts.push(step.text);
    else if (step.value === null || typeof step.value !== 'object') parts.push(scalarText(step.value));
    else for (const next of stepsOf(step.value).toReversed()) steps.push(next);
  }
  return parts.join('');
}

function stepsOf(value: object): Step[] {
  if (Array.isArray(value)) {
    const elements = value.flatMap((element: JsonValue, index): Step[] =>
      index === 0 ? [{ value: element }] : [{ text: ',' }, { value: element }],
    );
    return [{ text: '[' }, ...elements, { text: ']' }];
  }
  const members = Object.entries(value).flatMap(([name, member]: [string, JsonValue], index): Step[] => [
    { text: `${index === 0 ? '' : ','}${JSON.stringify(name)}:` },
    { value: member },
  ]);
  return [{ text: '{' }, ...members, { text: '}' }];
}

function scalarText(value: Exclude<JsonValue, object> | null): string {
  return typeof value === 'bigint' ? String(value) : JSON.stringify(value);
}
