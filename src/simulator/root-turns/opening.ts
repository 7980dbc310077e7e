/** What an opening is about; `question` and `words` are JavaScript literals. */
export type OpeningSubject = { readonly question: string; readonly words: string; readonly pieces: number };

/**
 * First programs. Each sets up what the later ones use: `question`, `words`, `pieceAt(n)`, `promptFor(round, part,
 * piece)`, `note(piece, reply)` and `noted()`. Nothing is asked yet.
 */
export const OPENINGS: readonly [(subject: OpeningSubject) => string, ...((subject: OpeningSubject) => string)[]] = [
  (subject) => `${gathering(subject)}\n\n${NOTES_IN_A_LIST}\n\n${LOOK_AT_HITS}`,
  (subject) => `${gathering(subject)}\n\n${NOTES_IN_A_CLASS}\n\n${LOOK_AT_SIZES}`,
  (subject) => `${gathering(subject)}\n\n${NOTES_IN_A_MAP}\n\n${LOOK_BY_PATTERN}`,
];

function gathering({ question, words, pieces }: OpeningSubject): string {
  return String.raw`const question = ${question};
const words = ${words};
const documents = typeof context === 'string' ? [{ name: 'context', text: context }] : [...context];

// How many of the telling words begin a word of the text; six letters are enough to join singular and plural.
function wordsIn(text) {
  const folded = ' ' + fold(text).replace(/[^\p{L}\p{N}]+/gu, ' ');
  return words.filter((word) => folded.includes(' ' + word.slice(0, 6)));
}

// What to read, most promising first: passages that search finds, then the documents piece by piece.
const hits = words.length > 0 ? search(words.join(' '), 24) : [];
const pieces = hits
  .flatMap(({ document, text }) => chunk(text, 2400).map((part) => ({ document, text: part })))
  .map((piece) => ({ ...piece, found: wordsIn(piece.text).length }))
  .sort((a, b) => b.found - a.found);
for (const { name, text } of documents) {
  if (pieces.length >= ${pieces}) break;
  for (const part of chunk(text, 800)) pieces.push({ document: name, text: part });
}
if (pieces.length === 0) pieces.push({ document: 'context', text: '' });
const pieceAt = (n) => pieces[n % pieces.length];

function promptFor(round, part, { document, text }) {
  return [
    'Round ' + round + ', part ' + part + '.',
    '<document name="' + document + '">',
    text,
    '</document>',
    '<question>' + question + '</question>',
  ].join('\n');
}`;
}

const NOTES_IN_A_LIST = `// Replies, with the document each is about.
const notes = [];
function note({ document }, reply) {
  if (reply) notes.push({ document, text: reply });
}
const noted = () => notes;`;

const NOTES_IN_A_CLASS = `class Notebook {
  #notes = [];

  add(document, text) {
    this.#notes.push({ document, text });
  }

  get all() {
    return [...this.#notes];
  }
}
const notebook = new Notebook();
const note = (piece, reply) => {
  if (reply) notebook.add(piece.document, reply);
};
const noted = () => notebook.all;`;

const NOTES_IN_A_MAP = `// Each reply once, with the documents it came from.
const sources = new Map();
function note(piece, reply) {
  if (!reply) return;
  if (!sources.has(reply)) sources.set(reply, new Set());
  sources.get(reply).add(piece.document);
}
function noted() {
  return [...sources].flatMap(([text, names]) => [...names].map((document) => ({ document, text })));
}`;

const LOOK_AT_HITS = `print(documents.length + ' documents, ' + hits.length + ' passages found');
for (const { document, text } of hits.slice(0, 3)) print(document + ': ' + text.slice(0, 160));`;

const LOOK_AT_SIZES = `for (const { name, text } of documents.slice(0, 10)) print(name, text.length);
print(pieces.length, 'pieces to read; the first has', wordsIn(pieceAt(0).text).join(', ') || 'no telling word');`;

const LOOK_BY_PATTERN = String.raw`print(documents.length, 'documents,', pieces.length, 'pieces');
const figures = search(/\b\d+\b/, 3).map(({ document, text }) => document + ': ' + text.slice(0, 120));
print(figures.length > 0 ? figures.join('\n') : 'no figures');`;
