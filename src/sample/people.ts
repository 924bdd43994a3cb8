import { diceFor } from './dice.ts';

export type Person = ReturnType<typeof personAt>;

/** Name as written, and as it stands in an address. */
type Name = readonly [string, string];

const firstNames: readonly [Name, ...Name[]] = [
  ['Ada', 'ada'],
  ['Łukasz', 'lukasz'],
  ['Zoë', 'zoe'],
  ['José', 'jose'],
  ['Øyvind', 'oyvind'],
  ['Мария', 'maria'],
  ['美咲', 'misaki'],
  ['محمد', 'mohamed'],
  ['Siobhán', 'siobhan'],
  ['Nguyệt', 'nguyet'],
  ['Thomas', 'thomas'],
  ['Lori', 'lori'],
  ['Οδυσσέας', 'odysseas'],
  ['Ayşe', 'ayse'],
  ['Priya', 'priya'],
  ['O’Neil', 'oneil'],
];

const lastNames: readonly [Name, ...Name[]] = [
  ['Barry', 'barry'],
  ['Žižek', 'zizek'],
  ['García Márquez', 'garcia'],
  ['Müller', 'mueller'],
  ['Иванова', 'ivanova'],
  ['佐藤', 'sato'],
  ['Smith', 'smith'],
  ['D’Souza', 'dsouza'],
  ['Ångström', 'angstrom'],
  ['Kowalska', 'kowalska'],
  ['', 'office'],
];

const peopleKind = 0x70656f70;

/** The person with this number. Addresses are unique, because the number is a part of them. */
export function personAt(seed: number, number: number) {
  const dice = diceFor(seed, peopleKind, number);
  const [first, firstInAddress] = dice.pick(firstNames);
  const [last, lastInAddress] = dice.pick(lastNames);
  const domain = dice.pick(['example.test', 'mail.example.test', 'bücher.example.test']);
  // Some people type their address with capitals; its hash is still that of the lower-case form.
  const typed = dice.chance(10) ? firstInAddress.toUpperCase() : firstInAddress;
  return { first, last, email: `${typed}.${lastInAddress}.${number.toString(36)}@${domain}` };
}

/** The number of the person with this address (in any case), or null. */
export function personNumber(seed: number, email: string): number | null {
  const digits = /\.([0-9a-z]{1,6})@/.exec(email.toLowerCase())?.[1];
  if (digits === undefined) return null;
  const number = Number.parseInt(digits, 36);
  return personAt(seed, number).email.toLowerCase() === email.toLowerCase() ? number : null;
}
