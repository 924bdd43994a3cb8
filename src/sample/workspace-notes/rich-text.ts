import type { JsonObject } from '../../core/json.ts';

const plain: JsonObject = {
  bold: false,
  italic: false,
  strikethrough: false,
  underline: false,
  code: false,
  color: 'default',
};

function piece(type: string, content: JsonObject, text: string, href: string | null = null): JsonObject {
  return { type, [type]: content, annotations: plain, plain_text: text, href };
}

/** A text as the notes service writes it: an array of pieces. An empty text is an empty array. */
export function richText(content: string, href: string | null = null): readonly JsonObject[] {
  const link = href === null ? null : { url: href };
  return content === '' ? [] : [piece('text', { content, link }, content, href)];
}

/** A text with everything that pieces can be: marked text, a link, a person, a formula. */
export function decoratedText(userId: string): readonly JsonObject[] {
  const user = { object: 'user', id: userId, avatar_url: 'https://static.example.test/1.png' };
  const marked = { ...plain, bold: true, color: 'red' };
  return [
    ...richText('Ask '),
    piece('mention', { type: 'user', user }, '@Ada'),
    ...richText(' about ').map((one) => ({ ...one, annotations: marked })),
    ...richText('the plan', 'https://example.test/plan'),
    piece('equation', { expression: 'e=mc^2' }, 'e=mc^2'),
  ];
}

/** A file that the notes service keeps itself: its address holds for a time. */
export function hostedFile(path: string, signature: string): JsonObject {
  const url = `https://files.example.test/${path}?signature=${signature}`;
  return { url, expiry_time: '2024-03-01T10:00:00.000Z' };
}

/** More characters than the API shows of a text when it shortens them. */
export const longSentence =
  'Anything that is worth writing down is worth finding again, so this paragraph goes on for a while – ' +
  'über Umlaute, 日本語 and emoji 🎉 – until it is longer than two hundred characters, because that is where ' +
  'a shortened answer would have cut it off and left the reader with a marker.';
