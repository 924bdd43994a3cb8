/** Text with names that stand for values: `/lists/{list_id}`. */
export type Template = readonly TemplatePart[];
type TemplatePart =
  { readonly kind: 'text'; readonly text: string } | { readonly kind: 'name'; readonly name: string };

/** Names (and positions, as digits) from the top of a JSON answer: `bot.workspace_id`. */
export type AnswerPath = readonly string[];

export type AnswerPlace =
  | { readonly kind: 'body'; readonly path: AnswerPath }
  /** Lower-case. */
  | { readonly kind: 'header'; readonly name: string };

/** `bot.workspace_id`; an empty text is the whole answer. */
export function answerPath(text: string): AnswerPath {
  return text === '' ? [] : text.split('.');
}

const part = /\{([A-Za-z][A-Za-z0-9_.-]{0,63})\}|[^{}]+/gy;

/** `/lists/{list_id}` as its parts; null where a brace has no partner or holds no name. */
export function parseTemplate(text: string): Template | null {
  const parts: TemplatePart[] = [];
  let end = 0;
  for (const { 0: whole, 1: name, index } of text.matchAll(part)) {
    if (index !== end) return null;
    parts.push(name === undefined ? { kind: 'text', text: whole } : { kind: 'name', name });
    end = index + whole.length;
  }
  return end === text.length ? parts : null;
}

export function namesIn(template: Template): readonly string[] {
  return template.flatMap((one) => (one.kind === 'name' ? [one.name] : []));
}

/** The text with every name replaced. What a value may hold is the caller's business. */
export function fillTemplate(template: Template, valueOf: (name: string) => string): string {
  return template.map((one) => (one.kind === 'name' ? valueOf(one.name) : one.text)).join('');
}

/** Parses a text that was checked before. Throws `TypeError` otherwise. */
export function checkedTemplate(text: string): Template {
  const template = parseTemplate(text);
  if (template === null) throw new TypeError(`expected a checked text, got ${JSON.stringify(text)}`);
  return template;
}
