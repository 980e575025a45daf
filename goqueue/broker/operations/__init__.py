"""Operations: changes of operators, recorded so that anyone can see them and take them back."""
